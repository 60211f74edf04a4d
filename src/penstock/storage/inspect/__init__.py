"""Tools for operators: dump a log's files, verify them, and show what keeps each segment."""
