"""Independent checks of what Raft cores promise, keep on disk and send."""
