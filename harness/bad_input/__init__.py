"""Malformed and oversized input: generators, and senders that know what became of it."""
