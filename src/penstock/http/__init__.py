"""The HTTP front: a process beside the nodes, for whom no client of a protocol is at hand."""
