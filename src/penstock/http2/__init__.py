"""A server's side of HTTP/2 without I/O: frames, header blocks, windows, streams and bounds."""
