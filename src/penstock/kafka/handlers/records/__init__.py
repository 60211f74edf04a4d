"""APIs of records: produce, fetch, and look-ups of offsets."""
