"""Consumer groups: membership, and the positions they commit."""
