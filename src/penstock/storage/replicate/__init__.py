"""What a replica gives away and takes over: runs of frames, and whole bases."""
