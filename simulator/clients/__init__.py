"""The clients of a run, which record a history: producers, readers, groups, an administrator."""
