"""One run and many: its plan, its hosts, what is told of it, and the shortest plan that fails."""
