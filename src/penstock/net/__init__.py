"""Listeners, client connections, peer links, limits. Handles bytes and knows no topics."""
