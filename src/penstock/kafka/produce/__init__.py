"""Produce: what is not appended in one turn, what waits to be acknowledged, what was refused."""
