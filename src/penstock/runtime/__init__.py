"""The core at work: real clock, disk and threads, replication links, sessions, Raft's driver."""
