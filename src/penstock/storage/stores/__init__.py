"""A partition over several stores: the consumer's view, the port of a store, retention."""
