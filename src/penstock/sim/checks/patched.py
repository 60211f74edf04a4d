"""Methods of the running system that are listened to for as long as a run lasts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any


@contextmanager
def patched(owner: type, name: str, around: Callable[..., Any]) -> Iterator[None]:
    """Call `around(real, self, ...)` in the place of a method; it is to call the real one."""
    real = vars(owner)[name]

    @wraps(real)
    def heard(self: Any, *args: Any, **named: Any) -> Any:
        return around(real, self, *args, **named)

    setattr(owner, name, heard)
    try:
        yield
    finally:
        setattr(owner, name, real)
