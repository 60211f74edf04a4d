"""Fetch: sessions, the partitions of a request, and the answer."""
