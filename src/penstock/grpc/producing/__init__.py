"""Producers that the node knows, and transactions of theirs."""
