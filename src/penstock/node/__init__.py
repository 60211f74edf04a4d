"""The composition root: settings, identity, wiring, start and stop of one node process."""
