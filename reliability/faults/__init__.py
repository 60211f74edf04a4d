"""Faults of processes, disks, networks and clocks, and the rounds that bring them about."""
