"""Clients that have quotas, and brokers that let them wait."""
