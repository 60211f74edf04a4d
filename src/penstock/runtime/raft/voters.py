"""What operators ask of the group: other voters, another leader.

Each request is answered exactly once; see member_changes.py. Which changes are allowed is decided
by the core.

Source: raft/raft.py (add_voter, remove_voter, transfer).
"""

from collections.abc import Callable

from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId
from penstock.raft.ids import DirectoryId
from penstock.raft.raft import Raft
from penstock.runtime.raft.member_changes import MemberChanges, MemberDone


class Voters:
    """Begins changes of the voters and transfers of leadership, on the event loop."""

    def __init__(
        self,
        core: Raft,
        changes: MemberChanges,
        refusal: Callable[[], PlatformError | None],
        work_later: Callable[[], None],
    ) -> None:
        """`refusal()` says why nothing can be changed now; `work_later()` takes the core's work."""
        self._core = core
        self._changes = changes
        self._refusal = refusal
        self._work_later = work_later

    def add_voter(
        self,
        peer_id: PeerId,
        address: str,
        done: MemberDone,
        directory_id: DirectoryId | None = None,
    ) -> None:
        """Make a learner that has caught up a voter with `address` (host:port).

        The voter is bound to the directory that it runs with; refused if that is not
        `directory_id`.
        """
        core = self._core
        add = lambda: core.add_voter(peer_id, address, directory_id)  # noqa: E731  two of one kind
        self._changes.change(add, self._refusal(), done)
        self._work_later()

    def remove_voter(
        self, peer_id: PeerId, done: MemberDone, directory_id: DirectoryId | None = None
    ) -> None:
        """Make a voter a learner. A leader that removes itself steps down after the commit.

        Refused if its vote is bound to another directory than `directory_id`.
        """
        core = self._core
        remove = lambda: core.remove_voter(peer_id, directory_id)  # noqa: E731  two of one kind
        self._changes.change(remove, self._refusal(), done)
        self._work_later()

    def transfer(self, to: PeerId, done: MemberDone) -> None:
        """Hand leadership to voter `to`; `done` is called when it leads, or with the error."""
        self._changes.transfer(lambda: self._core.transfer(to), to, self._refusal(), done)
        self._work_later()
