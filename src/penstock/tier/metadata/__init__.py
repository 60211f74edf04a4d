"""The metadata of the tier: whose objects there are, and which ranges of partitions they hold."""
