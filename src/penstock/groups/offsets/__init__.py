"""Positions that groups have committed."""
