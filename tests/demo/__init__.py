"""The demo's own arithmetic: it must not call a broken run clean."""
