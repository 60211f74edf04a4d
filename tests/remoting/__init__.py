"""Tests of the remoting front."""
