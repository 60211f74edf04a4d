"""Clients that know what they did, and who reads what the audit says of it."""
