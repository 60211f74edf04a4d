"""The duties of the active controller: liveness, elections, transfers, drains, status."""
