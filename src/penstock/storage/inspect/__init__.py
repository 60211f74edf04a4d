"""For people: what stands in the files of a log, whether it is sound, and what keeps it."""
