"""Who a client is: passwords, challenges and certificates become principals, without any I/O."""
