"""An independent model of a member's promises: a list of which controller probed which epoch.

Source: docs/adr/0016. Nothing may be confirmed for masterships up to the newest one that was
probed; for that one itself, until the controller that probed last, or a later one, releases it.
"""

from penstock.replication.promise import Asker


class Promised:
    """See the module."""

    def __init__(self) -> None:
        self._newest = -1
        """The newest mastership that was named."""
        self._asked: list[Asker] = []
        """All controllers that have ever probed."""
        self._is_open = False

    def __str__(self) -> str:
        return f"{self._asked[-3:]} asked, open: {self._is_open}, newest epoch {self._newest}"

    def asked(self, leader_epoch: int, asker: Asker) -> None:
        """A controller has probed the member for an election."""
        if leader_epoch < self._newest:
            return
        self._newest = leader_epoch
        self._asked.append(asker)
        self._is_open = True

    def released(self, leader_epoch: int, asker: Asker) -> None:
        """A controller says that nothing comes of it: one that does not know of a later one."""
        if leader_epoch >= self._newest and all(asker >= one for one in self._asked):
            self._newest, self._is_open = leader_epoch, False

    def holds(self, leader_epoch: int) -> bool:
        """Whether nothing may be confirmed for that mastership now."""
        return leader_epoch < self._newest or (self._is_open and leader_epoch == self._newest)
