"""The ports for clients of a node, and who serves them."""
