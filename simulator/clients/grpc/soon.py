"""Renewals of what push consumers have, scaled down as the settings of processes are.

They are no settings: clients rely on a minute, and nobody waits that long in a run.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.grpc.consuming import renewing
from penstock.grpc.methods import receive_message

RENEWED_MS, AFTER_MS, MOST_MS = 4_000, 2_000, 7_000


@contextmanager
def renewed_soon() -> Iterator[None]:
    """Renew early, and not for long, until the block ends."""
    replaced = [
        (renewing, "RENEWED_MS", RENEWED_MS),
        (renewing, "AFTER_MS", AFTER_MS),
        (renewing, "MOST_MS", MOST_MS),
        (receive_message, "RENEWED_MS", RENEWED_MS),
    ]
    saved = [(module, name, getattr(module, name)) for module, name, _ in replaced]
    for module, name, value in replaced:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in saved:
            setattr(module, name, value)
