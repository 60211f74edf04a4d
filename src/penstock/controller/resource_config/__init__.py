"""Configuration of brokers, groups and client metrics: which keys there are, and their layers."""
