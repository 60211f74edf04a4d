"""Implementations of base's ports on the real machine: clock, randomness, disk, threads, HTTP."""
