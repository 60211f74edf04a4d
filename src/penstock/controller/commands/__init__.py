"""What the controller can be asked: each command becomes an answer and records."""
