"""The bytes of a commit log: frames, runs of them, what they claim, and checks; no files."""
