"""Reading of many places: compiled if available, else in Python.

Source: ours, ADR 0021.
"""

try:
    from penstock.runtime.io._gather import read_places
except ImportError:  # no C compiler at installation
    from penstock.runtime.io.gather import read_places

__all__ = ["read_places"]
