"""Simulated clusters of the production code in virtual time, under faults, with checks."""
