"""Where batches of a partition lie: in memory, beside the log, sealed with a segment."""
