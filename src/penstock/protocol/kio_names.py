"""What is used of kio, imported as if hypothesis was not there.

kio registers its types with hypothesis wherever that is installed. That is for tests, and would
slow every start of a node in a development environment.

Source: kio 0.6.5, `static/_phantom.py`. Whoever has imported hypothesis already pays nothing more.
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
