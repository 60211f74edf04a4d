"""The tier: what its metadata was answered to say, what the store has, and what the log has."""
