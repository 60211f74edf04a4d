"""Malformed input: every parser survives it, and a corpus of what was found."""
