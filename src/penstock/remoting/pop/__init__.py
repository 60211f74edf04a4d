"""Pop: messages for clients that own no queue, invisible to others until acknowledged."""
