"""The asyncio listener: connections, framing, limits. Knows bytes, not topics."""
