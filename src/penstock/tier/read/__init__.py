"""Objects as they are read: batches at an offset, whole objects checked, all objects compared."""
