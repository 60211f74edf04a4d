"""Recovery of a log at a start, repair after damage, and the scrub that looks for damage."""
