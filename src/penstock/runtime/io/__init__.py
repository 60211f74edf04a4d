"""The ports of base over the real machine: clock, randomness, disk, threads, HTTP."""
