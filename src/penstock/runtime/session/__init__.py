"""Both ends of the sessions between brokers and controllers."""
