"""Records and places in topics, as people write them on a command line."""
