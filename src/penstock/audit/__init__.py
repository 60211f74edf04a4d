"""Who used what of a node: events folded into rows of a minute, and the bytes of a row."""
