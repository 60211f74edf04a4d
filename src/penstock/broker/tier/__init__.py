"""What a broker gives to the tier: its logs, and where the tier's metadata is."""
