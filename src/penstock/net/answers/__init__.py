"""Answers of client connections: their order, the room they are prepared in, and who is too slow."""
