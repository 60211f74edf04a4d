"""Tests of share groups (KIP-932)."""
