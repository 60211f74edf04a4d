"""Delegation tokens: the commands about them, and what becomes of each."""
