"""The servers that are measured and the C clients that load them."""
