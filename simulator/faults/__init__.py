"""How each fault of a plan is done to a cluster, and undone; what operators ask meanwhile."""
