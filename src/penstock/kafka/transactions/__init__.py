"""Transactions between brokers: asking the coordinator, markers, and new producer ids for it."""
