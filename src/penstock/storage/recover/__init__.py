"""From files to a log again: at a start, after damage, and looking for damage."""
