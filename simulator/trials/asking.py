"""Tests the retries of a broker's command, over all outcomes of its attempts.

    lost answer ─ leadership lost ─ not active ─ no session ─ queue full ─ refused ─ done
        ─► SessionCommands, driven by hand ─► number of attempts, and the final result

A caller that is told that a command was not taken continues as if it had never been sent. So after
a lost answer the result must be "it may have happened", unless a later attempt was decided; and a
command that must not be executed twice is not sent twice.

Source: docs/adr/0064; runtime/session/commands.py, "What may be sent again".
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from harness.ids import as_brokers
from penstock.base.ids import BrokerId, LeaderEpoch, PeerId, ReplicaSetId, SyncStateSetEpoch
from penstock.controller.commands import command as c
from penstock.controller.errors import (
    LeadershipLost,
    MetadataError,
    MetadataQueueFull,
    MetadataTimeout,
    NotActiveController,
    NotReplica,
    RefusedCommand,
)
from penstock.runtime.session.commands import SessionCommands
from penstock.runtime.session.config import SessionConfig
from penstock.runtime.session.link import AnswerLost, NoSession
from simulator.trials.stand_ins import Moment

ATTEMPTS = 5

_ONCE = c.ChangeSyncStateSet(
    replica_set_id=ReplicaSetId(1),
    master=BrokerId(1),
    leader_epoch=LeaderEpoch(1),
    sync_state_set_epoch=SyncStateSetEpoch(1),
    sync_state_set=as_brokers(1),
    joining=(),
)
_AGAIN = c.RegisterReplica(
    replica_set_id=ReplicaSetId(1), broker_id=BrokerId(1), log_id="a log", incarnation="copy"
)


class Asking(SessionCommands):
    """Commands whose attempts end as scripted."""

    def __init__(self, outcomes: list[Exception | None]) -> None:
        super().__init__(
            None,  # type: ignore[arg-type]
            _Tracker(),  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            config=SessionConfig(),
            clock=Moment(),
        )
        self._outcomes = outcomes
        self.attempts: list[Exception | None] = []

    async def _submit_to(self, target: int, command: c.Command[Any]) -> Any:
        """End as the next one is to."""
        del target, command
        outcome = self._outcomes.pop(0)
        self.attempts.append(outcome)
        if outcome is not None:
            raise outcome

    def ask(self, command: c.Command[Any]) -> Exception | None:
        """Ask, and return how that ends."""
        work = self._submit(command)
        try:
            work.send(None)
        except StopIteration:
            return None
        except MetadataError as error:
            return error
        raise AssertionError("it waits, and there is nothing to wait for")


class _Tracker:
    """Has one controller, and never blocks."""

    active_id, news = 101, None

    def on_refusal(self, asked: int, named: int) -> None:
        """Nothing comes of it."""

    async def wait(self, news: None, delay_ms: int) -> None:
        """Go on."""


def wrong_askings(draw: Random, count: int) -> Iterator[str]:
    """Ask so many times; yield what is wrong with the first that something is wrong with."""
    for _ in range(count):
        command = draw.choice((_ONCE, _AGAIN))
        outcomes = [_outcome(draw) for _ in range(ATTEMPTS)]
        asking = Asking([*outcomes, None])
        end = asking.ask(command)
        lost = [isinstance(attempt, AnswerLost | LeadershipLost) for attempt in asking.attempts]
        story = [type(attempt).__name__ for attempt in asking.attempts]
        if command is _ONCE and any(lost[:-1]):
            yield f"asks again for what may have happened: {story}"
            return
        is_judged = end is None or isinstance(end, RefusedCommand)
        if any(lost) and not is_judged and not isinstance(end, MetadataTimeout):
            yield f"calls {end!r} what may have happened: {story}"
            return
        if not any(lost) and isinstance(end, MetadataTimeout):
            yield f"calls open what nobody has taken: {story}"
            return


def _outcome(draw: Random) -> Exception | None:
    return draw.choice(
        (
            AnswerLost("the link ended"),
            LeadershipLost(PeerId(102)),
            NotActiveController(PeerId(102)),
            NoSession("none"),
            MetadataQueueFull(1),
            NotReplica(BrokerId(1), ReplicaSetId(1)),
            None,
        )
    )
