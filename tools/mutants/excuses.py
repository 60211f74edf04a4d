"""Planted bugs that no test finds, and why each is no gap in the tests."""

EXCUSES: dict[str, str] = {}
"""By the bug's name: the reason, as a sentence."""
