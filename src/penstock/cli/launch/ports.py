"""Whether this process could listen at an address, found out by listening there for a moment."""

import os
import socket


def why_unusable(host: str, port: int) -> str:
    """Return why nobody can listen there, in the system's words; empty where one can."""
    try:
        with socket.create_server((host, port), family=_family(host), reuse_port=False):
            return ""
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
