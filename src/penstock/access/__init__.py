"""Access: who a client is, and what it may do, without any I/O."""
