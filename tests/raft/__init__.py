"""Tests of the raft room."""
