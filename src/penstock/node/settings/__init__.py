"""Settings of a process: read from file, environment and flags, and told to operators."""
