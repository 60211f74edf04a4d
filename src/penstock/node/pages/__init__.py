"""What a process tells people and monitoring over HTTP."""
