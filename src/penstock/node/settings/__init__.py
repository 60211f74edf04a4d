"""Settings of a process: from file, environment and flags, and as shown to operators."""
