"""Cleaning of compacted partitions: batches go in, what is left of them comes out; no files."""
