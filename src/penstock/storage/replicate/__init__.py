"""What replicas copy from one another: runs of frames, and whole bases."""
