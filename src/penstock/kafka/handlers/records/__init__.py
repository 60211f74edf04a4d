"""Records in and out: produce, fetch, and where offsets lie."""
