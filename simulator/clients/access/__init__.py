"""Clients that have to say who they are, and those who decide what these may do."""
