"""The coordinator of transactions: which are open, and how each ends (KIP-98, KIP-890)."""
