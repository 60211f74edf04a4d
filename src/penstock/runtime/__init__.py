"""Drivers for the core: real clock, disk and threads, replication links, sessions, Raft."""
