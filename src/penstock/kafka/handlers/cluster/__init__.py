"""The cluster: who is there, its topics and their configuration, and changing them."""
