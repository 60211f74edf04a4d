"""Record batches of magic 2: check, stamp, read, build, compress, turn into columns."""
