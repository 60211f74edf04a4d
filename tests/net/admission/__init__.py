"""Tests of who is let in, who waits, and who gives way."""
