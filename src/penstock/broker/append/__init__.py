"""Appends to partitions: checks and preparation of produced batches, and markers."""
