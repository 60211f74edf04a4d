"""Bytes of files changed or cut off: where they are, and what becomes of them."""
