"""Ids, ports, errors and `invariant()`: what every room may import and nothing else."""
