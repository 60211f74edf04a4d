"""Replication links, and the loop that moves a member between roles; the roles are in replica."""
