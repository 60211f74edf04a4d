"""Hosting the group coordinator: its journal in an internal topic, and who has which."""
