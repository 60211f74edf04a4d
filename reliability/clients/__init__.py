"""Clients that write, read and own partitions while something breaks."""
