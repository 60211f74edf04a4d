"""Whole clusters of the production code in virtual time, under faults, and who judges them."""
