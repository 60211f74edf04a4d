"""Classic consumer groups: membership, rebalances and committed offsets, without any I/O."""
