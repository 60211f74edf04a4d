"""What comes later, or again: delays, retries, dead letters (docs/adr/0127)."""
