"""Kafka's words for configuration: what a key and its value are, and keys that do nothing here."""
