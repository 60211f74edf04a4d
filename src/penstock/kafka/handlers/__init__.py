"""One module for each Kafka API; a handler answers now or later, or closes the connection."""
