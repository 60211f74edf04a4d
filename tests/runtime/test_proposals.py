"""A proposal is told to be applied by the entry that it became, and by no other."""

from collections.abc import Callable
from typing import cast

from penstock.base.ports import Scheduler
from penstock.controller.errors import NotActiveController
from penstock.runtime.raft.proposals import Proposals


class Loop:
    """Calls at once."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        callback()


def test_a_proposal_whose_place_another_leaders_entry_took_is_not_told_to_be_applied() -> None:
    proposals = Proposals(cast("Scheduler", Loop()))
    outcomes: list[object] = []
    proposals.opened(5, 1, outcomes.append)
    proposals.opened(6, 2, outcomes.append)
    proposals.on_applied(5, 2, 40)
    proposals.on_applied(6, 2, 41)
    refusal, applied = outcomes
    assert isinstance(refusal, NotActiveController)
    assert applied == 41
    assert proposals.count == 0
