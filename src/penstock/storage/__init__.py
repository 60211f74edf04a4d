"""Storage: one commit log per replica set, shared by all of its partitions.

`commit_log/set_log.SetLog` is the public interface. See docs/formats for the byte tables and
docs/adr/0002-storage.md for the reasons.
"""
