"""The calls of the service, a module for each that is served."""
