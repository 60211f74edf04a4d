"""The Kafka wire protocol: headers, all messages, and hand-written codecs for the frequent ones."""
