"""The commands of `penstock`: each parses, calls one function of another package, and prints."""
