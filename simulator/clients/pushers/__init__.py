"""Clients that push metrics of themselves (KIP-714), and who reads what brokers make of them."""
