"""Tests of the front for RocketMQ's gRPC clients."""
