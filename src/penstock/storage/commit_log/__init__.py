"""The commit log itself: frames in segment files, appended, synced, cut and deleted."""
