"""Bytes of the remoting protocol: frames, headers, messages, properties, bodies of batches."""
