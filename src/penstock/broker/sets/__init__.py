"""This node's members of replica sets: their roles, and the duties that come round."""
