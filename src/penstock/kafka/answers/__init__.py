"""Parts that the answers of several APIs share: topics, leaders, configuration, permissions."""
