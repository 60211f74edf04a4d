"""Running plans: the plan of a seed, the hosts of a run, its report, shrinking, campaigns."""
