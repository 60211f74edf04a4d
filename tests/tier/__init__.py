"""Tests of the tier: stores, decisions about objects, what is read."""
