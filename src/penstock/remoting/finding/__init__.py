"""Queries by id and key: which names messages have, and the messages at the places of one."""
