"""Random requests to groups, and duties of their coordinators, on copies."""
