"""Quotas of clients: whose, which one applies, how much was taken, how long to wait."""
