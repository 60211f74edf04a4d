"""What Raft cores promise, keep on disk and say, counted a second time."""
