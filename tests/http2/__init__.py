"""Tests of HTTP/2."""
