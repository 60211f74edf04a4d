"""What tests of whole simulated clusters share."""

import gc
import logging
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from simulator.checks.raft.recount import RaftRecount
from simulator.trials.group.trials import GroupTrials
from simulator.trials.metadata import MetadataTrials
from simulator.trials.operations import DiskTrials
from simulator.trials.raft_walks import RaftWalks
from simulator.trials.replicas import ReplicaTrials
from simulator.trials.shadow_starts import ShadowStarts


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


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, only_what_happens: None) -> pytest.MonkeyPatch:
    """Plant a bug that clients are to find, with this, in runs that nothing but them judges.

    Raft's decisions are not counted anew, and nothing is tried on copies: that takes a third of the
    time of a run, and changes nothing in it.
    """
    monkeypatch.setattr(RaftRecount, "at_work", lambda _: nullcontext())
    monkeypatch.setattr(RaftWalks, "walk", lambda *_: None)
    monkeypatch.setattr(MetadataTrials, "hearing", lambda _: nullcontext())
    monkeypatch.setattr(DiskTrials, "watch", lambda *_: None)
    monkeypatch.setattr(ShadowStarts, "is_due", lambda _: False)
    return monkeypatch
