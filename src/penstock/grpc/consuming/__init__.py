"""Consumers of gRPC: who they are, receipts, messages as they are delivered, what is renewed."""
