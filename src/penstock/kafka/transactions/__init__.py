"""Transactions between brokers: asking the coordinator, and markers to the partitions."""
