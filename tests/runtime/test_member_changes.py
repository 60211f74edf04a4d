"""Who asked for another leader is answered once, by the outcome of that transfer."""

from collections.abc import Callable
from typing import cast

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId
from penstock.base.ports import Scheduler
from penstock.raft.errors import TransferRefused
from penstock.runtime.raft.member_changes import MemberChanges


class Timers:
    """What is to be called later, and is called by the test."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        callback()

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.later.append(callback)


def test_the_time_of_a_transfer_that_has_ended_does_not_end_the_next_one() -> None:
    timers = Timers()
    changes = MemberChanges(cast("Scheduler", timers), 100)
    outcomes: dict[str, PlatformError | None] = {}
    changes.transfer(lambda: None, PeerId(2), None, lambda error: outcomes.update(first=error))
    changes.on_leader(PeerId(2))
    changes.transfer(lambda: None, PeerId(3), None, lambda error: outcomes.update(second=error))
    first_is_over, second_is_over = timers.later
    first_is_over()
    assert outcomes == {"first": None}
    second_is_over()
    assert isinstance(outcomes["second"], TransferRefused)
