"""Certificates, users' files and doors of the listeners of one node."""
