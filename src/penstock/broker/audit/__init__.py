"""Rows for people in internal topics: the audit of a node, and the metrics that clients push."""
