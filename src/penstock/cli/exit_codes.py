"""Exit codes of every command; scripts may rely on them."""

EXIT_OK = 0
EXIT_FAILED = 1
"""The command failed while it ran; trying again may help."""
EXIT_USAGE = 2
"""Arguments or settings are wrong; trying again does not help."""
EXIT_INTERRUPTED = 130
"""Interrupted by the keyboard (128 + SIGINT)."""
