"""The Kafka front: requests become calls of the broker, outcomes become error codes."""
