"""What several APIs say in the same words: topics, leaders, configuration, permissions."""
