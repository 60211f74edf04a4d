"""The Kafka front: its requests become calls of the broker, outcomes become its error codes."""
