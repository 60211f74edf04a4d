"""Independent rules for what group coordinators answer, keep and write."""
