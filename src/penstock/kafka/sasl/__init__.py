"""SASL at the Kafka front: what a client may ask before it has proved who it is, and after."""
