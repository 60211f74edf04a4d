"""Records and places in topics, as written on a command line."""
