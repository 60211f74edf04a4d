"""Invariants that are checked at every moment of a run, inside the running processes."""
