"""One module for each Kafka API; a handler answers now, later, or ends the connection."""
