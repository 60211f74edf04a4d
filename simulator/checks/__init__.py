"""What must hold at every moment, looked at inside the running processes."""
