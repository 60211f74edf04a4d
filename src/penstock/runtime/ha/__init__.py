"""Replication links at work: the master's end, the slave's end, and one mastership's state."""
