"""Access: rules (ACLs), what they decide, and filters that find them."""
