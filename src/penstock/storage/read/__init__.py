"""Reading whole, checked batches of one partition."""
