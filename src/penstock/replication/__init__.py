"""The rules of a replica set: acknowledgements, the confirm position, epochs. No I/O, no log."""
