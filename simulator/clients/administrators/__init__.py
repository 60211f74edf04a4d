"""Administrators: who reads whatever a cluster tells, and who ends transactions by markers."""
