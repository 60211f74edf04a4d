"""Metrics that clients push of themselves (KIP-714): who is asked for which, and what came."""
