"""What clients do in a run, and note: producers, readers, groups, an administrator."""
