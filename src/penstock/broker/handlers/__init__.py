"""One module per Kafka API: KEY, VERSIONS and `handle`; `broker.registry` finds them here."""
