"""Answers of client connections: their order, room for making them, and who is too slow."""
