"""The second level of a log: closed segments, sorted by partition into extent files."""
