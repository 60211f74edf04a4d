"""Consumer groups that the coordinator assigns (KIP-848)."""
