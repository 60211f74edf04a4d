"""Does what the tier's core of decisions wants: asks, builds, uploads, looks, deletes."""
