"""The committed positions of groups."""
