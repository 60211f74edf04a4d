"""Checks of masters: who may be one, and what it may confirm."""
