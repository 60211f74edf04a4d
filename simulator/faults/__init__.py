"""The faults of a plan, injected and healed; the operations of operators meanwhile."""
