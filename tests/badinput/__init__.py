"""Malformed input: one generator, and runners against the parsers and against a live node."""
