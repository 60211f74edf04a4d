"""Shares: who holds which record of a partition, and until when; for share groups and pop."""
