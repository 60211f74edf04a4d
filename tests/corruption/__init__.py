"""Damage in every class of bytes of every file, and what becomes of it."""
