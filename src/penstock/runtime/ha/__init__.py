"""Replication links: the master's end, the slave's end, and the state of one mastership."""
