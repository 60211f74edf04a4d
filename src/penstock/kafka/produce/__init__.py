"""Produce: requests that take more than one iteration, that await acknowledgement, refusals."""
