"""The Kafka wire protocol: headers, messages, and the hot requests and answers by hand."""
