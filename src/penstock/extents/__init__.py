"""The bytes of extent files: batches of one partition after the other, sorted; no files."""
