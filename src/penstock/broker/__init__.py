"""What a node answers: one handler module per API over partitions, replica sets and purgatory."""
