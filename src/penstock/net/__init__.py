"""Listeners, connections, links between processes, limits. Knows bytes, not topics."""
