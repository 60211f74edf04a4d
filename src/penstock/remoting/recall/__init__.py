"""Messages that wait for a time of their own are taken back before it (docs/adr/0165)."""
