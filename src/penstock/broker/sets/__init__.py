"""Periodic duties of this node's members of replica sets; their roles are in replica."""
