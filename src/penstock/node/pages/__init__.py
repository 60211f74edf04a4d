"""HTTP pages of a process for people and monitoring."""
