"""A batch on its way into the log: checked, prepared, appended."""
