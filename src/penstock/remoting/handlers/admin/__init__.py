"""Requests of those who operate a cluster: RocketMQ's `mqadmin`, and programs with its library."""
