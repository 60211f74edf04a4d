"""Classic groups: members, rebalances, generations (the protocol before KIP-848)."""
