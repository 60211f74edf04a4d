"""Tests of whole processes: what a unit test can not show."""
