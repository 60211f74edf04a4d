"""Stock clients against a real node: what they need works as they expect it."""
