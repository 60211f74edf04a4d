"""Wraps methods of production code with observers for the duration of a run."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

_trials = [0]
"""How many trials on copies are under way: what they do is nothing that the run does."""


@contextmanager
def trial() -> Iterator[None]:
    """Use the original classes on copies, without the observers of the run and without logging."""
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    _trials[0] += 1
    try:
        yield
    finally:
        _trials[0] -= 1
        logging.disable(disabled)


def is_trial() -> bool:
    """Whether what is called now is called on copies."""
    return _trials[0] > 0


@contextmanager
def patched(owner: type, name: str, around: Callable[..., Any]) -> Iterator[None]:
    """Call `around(real, self, ...)` in the place of a method; it is to call the real one."""
    real = vars(owner)[name]

    @wraps(real)
    def heard(self: Any, *args: Any, **named: Any) -> Any:
        if _trials[0]:
            return real(self, *args, **named)
        return around(real, self, *args, **named)

    setattr(owner, name, heard)
    try:
        yield
    finally:
        setattr(owner, name, real)
