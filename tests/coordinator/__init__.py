"""The coordinator runtime, and the contract that shards fulfil."""
