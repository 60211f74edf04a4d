"""APIs of consumer groups: membership, and committed positions."""
