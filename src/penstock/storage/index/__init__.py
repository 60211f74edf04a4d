"""Positions of a partition's batches: in memory, in side files, in sealed index files."""
