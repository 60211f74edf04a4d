"""Checks whether this process can listen at an address, by listening there for a moment."""

import os
import socket


def why_unusable(host: str, port: int) -> str:
    """Return the system's message why the address can not be used; empty if it can."""
    try:
        with socket.create_server((host, port), family=_family(host), reuse_port=False):
            return ""
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
