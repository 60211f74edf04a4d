"""Loads modules without collections of garbage between, which find next to nothing.

A node loads over a thousand modules, and collections would look through what is there already
again and again: a fifth of the time that loading takes.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Import in this block. What there is behind it is never looked through by a collection."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()
