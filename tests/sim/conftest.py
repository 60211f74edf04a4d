"""What tests of whole simulated clusters share."""

import gc
import logging
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from simulator.trials.group.trials import GroupTrials
from simulator.trials.replicas import ReplicaTrials


@pytest.fixture
def quiet() -> Iterator[None]:
    """Keep what dozens of simulated processes log out of the way: it takes longer than the runs."""
    logging.disable(logging.CRITICAL)
    yield
    # Here, and not amid a later test, which would answer for what the dead left open.
    gc.collect()
    logging.disable(logging.NOTSET)


@pytest.fixture
def only_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge runs by what happens in them, and not by what else might have been asked.

    A run ends with what is found first, and walks on copies find planted bugs before the clients.
    """
    monkeypatch.setattr(GroupTrials, "hearing", lambda _: nullcontext())
    monkeypatch.setattr(ReplicaTrials, "look", lambda *_: None)
