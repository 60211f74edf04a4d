"""The names used from kio, imported as if hypothesis was not installed.

kio registers its types with hypothesis if that is installed. This is for tests only, and would slow
down every start of a node in a development environment.

Source: kio 0.6.5, `static/_phantom.py`. If hypothesis is imported already, it costs nothing more.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _hidden(module: str) -> Iterator[None]:
    """Let an import of the module fail within the block, unless it has been imported before."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]  # the import system's own "not there"
    try:
        yield
    finally:
        del sys.modules[module]


with _hidden("hypothesis"):
    from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema, load_response_schema
    from kio.schema.errors import ErrorCode

__all__ = [
    "ErrorCode",
    "UnknownAPIKey",
    "UnknownEntity",
    "load_request_schema",
    "load_response_schema",
]
