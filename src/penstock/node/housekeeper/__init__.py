"""The housekeeper of a node: what its jobs are, and the process that does them."""
