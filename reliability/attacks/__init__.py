"""Attacks and bad input against a running node, and the good clients beside them."""
