"""History for Spark straight from the object store: planned by the driver, read by executors."""
