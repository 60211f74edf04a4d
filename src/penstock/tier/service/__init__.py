"""The tier's metadata as a coordinator: kept in a partition of an internal topic, asked, loaded."""
