"""Reading many partitions for one consumer: at once, parked, ahead of requests, on a slave."""
