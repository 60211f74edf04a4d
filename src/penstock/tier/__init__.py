"""What lies in an object store: who may write it, what it is made of, how it is read; no I/O."""
