"""Handlers of requests by which clients say who they are, and of users' credentials."""
