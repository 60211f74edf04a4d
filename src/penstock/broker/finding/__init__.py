"""The index of messages by id and key: built from the logs of this node, and asked by its front."""
