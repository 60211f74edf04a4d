"""Thin commands: parse, call one function of a room below, print."""
