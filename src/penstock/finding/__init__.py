"""Where messages with an id or a key are: pieces of an index, their bytes, what they cover."""
