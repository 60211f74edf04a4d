"""Fetch: sessions, which partitions a request means, and its answer."""
