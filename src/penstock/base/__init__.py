"""Ids, ports, errors and `invariant()`: every room may import these; they import no other room."""
