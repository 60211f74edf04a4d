"""Planted bugs that no test finds, and why each is no gap in the tests."""

EXCUSES: dict[str, str] = {
    "raft-cut-tail-not-synced": "the sync of the next write covers the cut; a crash before that"
    " only brings the torn end back, which is cut again",
    "log-truncated-segment-not-synced": "the start that follows empties and syncs the same segment"
    " while the change is still on record, and a crash in between does all of it again",
}
"""By the bug's name: the reason, as a sentence."""
