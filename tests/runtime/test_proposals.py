"""A proposal is told to be applied by the entry that it became, and by no other."""

from collections.abc import Callable
from typing import cast

from penstock.base.ports import Scheduler
from penstock.controller.errors import NotActiveController
from penstock.controller.replicated_log import MachineIndex
from penstock.raft.ids import RaftIndex, Term
from penstock.runtime.raft.proposals import Proposals


class Loop:
    """Calls at once."""

    def call_soon(self, callback: Callable[[], None]) -> None:
        callback()


def test_a_proposal_whose_place_another_leaders_entry_took_is_not_told_to_be_applied() -> None:
    proposals = Proposals(cast("Scheduler", Loop()))
    outcomes: list[object] = []
    proposals.opened(RaftIndex(5), Term(1), outcomes.append)
    proposals.opened(RaftIndex(6), Term(2), outcomes.append)
    proposals.on_applied(RaftIndex(5), Term(2), MachineIndex(40))
    proposals.on_applied(RaftIndex(6), Term(2), MachineIndex(41))
    refusal, applied = outcomes
    assert isinstance(refusal, NotActiveController)
    assert applied == 41
    assert proposals.count == 0
