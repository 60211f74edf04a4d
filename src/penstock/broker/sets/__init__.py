"""This node's members of replica sets: their roles, and their periodic duties."""
