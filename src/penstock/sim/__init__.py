"""Judging and simulating whole clusters: checkers, and what feeds them."""
