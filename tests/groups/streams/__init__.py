"""Streams groups."""
