"""Readers beside the follower: of slaves, in sessions, of what is committed."""
