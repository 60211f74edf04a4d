"""A master on a copy: who it may believe, what it may decide."""
