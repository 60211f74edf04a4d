"""Brokers ask brokers over links of a purpose of their own: docs/adr/0090."""
