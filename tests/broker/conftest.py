"""A node and a client of it, for tests of single answers that need no settings of their own."""

from tests.running_node import client, node

__all__ = ["client", "node"]
