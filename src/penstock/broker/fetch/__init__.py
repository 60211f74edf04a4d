"""A look at many partitions for one consumer: at once, parked, read ahead, at a slave."""
