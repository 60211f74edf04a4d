"""Tests of consumer groups (KIP-848)."""
