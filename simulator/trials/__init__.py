"""Experiments on copies of a run's state: starts from its disks, random walks of its objects."""
