"""Shares as fronts reach them: waiting for them, letting them begin."""
