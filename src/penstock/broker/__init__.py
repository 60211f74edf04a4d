"""Partitions and members of replica sets: appends, fetches, roles, purgatory, hosted groups."""
