"""Which topic configurations there are, what they mean, and which are refused."""
