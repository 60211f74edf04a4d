"""Takes the rows of the audit to its internal topic, without blocking the loop.

    fold over ─► its rows wait to be written (row_log.py)
    each tick ─► some of them are written
    denial    ─► of the first DENIALS_MAX of a fold a row at once, DENIALS_OF_PRINCIPAL of a
                 principal; all others are folded
    permitted ─► folded
    stop      ─► the fold ends; what waits is written while partitions are still led here

What was folded or waits is lost with a process that is killed.

Source: docs/requirements.md K-58 (denied always, permitted on request); bounds are ours.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from penstock.audit.compiled import Counts
from penstock.audit.fold import Fold
from penstock.audit.row import ALLOWED, DENIED, TEXT_KEPT_MAX, RowKey, Who, encode_row
from penstock.broker.audit.row_log import RowLog, Rows, RowTopic

if TYPE_CHECKING:
    from penstock.broker.access import Operation, Requester, Resource
    from penstock.broker.broker import Broker

WAITING_MAX: Final = 30_000
"""Rows that wait to be written: three full folds."""
DENIALS_MAX: Final = 100
"""Denials of a fold that are rows at once."""
DENIALS_OF_PRINCIPAL: Final = 75
"""So that nobody hides by denials of one what others are denied."""


class _Waiting(NamedTuple):
    began_ms: int
    ended_ms: int
    key: RowKey
    counts: Counts


class AuditLog(Rows):
    """See the module; one for each node where the audit is on."""

    def __init__(self, broker: Broker, topic: RowTopic) -> None:
        self._broker = broker
        self.fold = Fold(broker.clock.wall_ms(), broker.config.audit_fold_ms)
        """Where requests are counted."""
        self._rows: RowLog[_Waiting] = RowLog(broker, topic, self._encode, WAITING_MAX)
        self._denials: Counter[str] = Counter()
        """Those of this fold that were rows at once, by principal."""

    def expire(self, now_ms: int) -> None:
        """Take what a fold that is over has left, and write some of what waits."""
        del now_ms
        if self.fold.is_over(self._broker.clock.wall_ms()):
            self._take()
        self._rows.write()

    def end(self) -> None:
        """Take what the present fold has, as the process stops; each tick writes some of it.

        Once `len` is 0, all of it is confirmed.
        """
        self._take()
        self._rows.write()

    def _take(self) -> None:
        began_ms, ended_ms, rows = self.fold.take(self._broker.clock.wall_ms())
        self._denials.clear()
        for key, counts in rows.items():
            self._rows.wait(_Waiting(began_ms, ended_ms, key, counts))

    def denied(self, who: Requester, operation: Operation, resource: Resource, name: str) -> None:
        """Take a denial: a row at once, or one more in the row of this fold."""
        key = _decision(DENIED, who, operation, resource, name)
        most, own = self._denials.total(), self._denials[who.principal]
        if most >= DENIALS_MAX or own >= DENIALS_OF_PRINCIPAL:
            self.fold.row(key).errors += 1
            return
        self._denials[who.principal] += 1
        counts = Counts()
        counts.errors = 1
        fold, wall_ms = self.fold, self._broker.clock.wall_ms()
        # A fold is taken some time after its end, and the clock may have gone back behind it.
        began_ms, ended_ms = min(fold.began_ms, wall_ms), max(fold.ends_ms, wall_ms + 1)
        self._rows.wait(_Waiting(began_ms, ended_ms, key, counts))
        self._rows.write()

    def allowed(self, who: Requester, operation: Operation, resource: Resource, name: str) -> None:
        """Count that a client used a permission, in the row of this fold."""
        self.fold.row(_decision(ALLOWED, who, operation, resource, name)).requests += 1

    def _encode(self, row: _Waiting) -> bytes:
        return encode_row(self._broker.broker_id, *row)


def _decision(
    word: str, who: Requester, operation: Operation, resource: Resource, name: str
) -> RowKey:
    """Return the key of decisions of a kind; the name of the resource stands for the topic."""
    what = f"{word} {operation.name.lower()} {resource.name.lower()}"
    return RowKey(_who(who), what, name[:TEXT_KEPT_MAX])


def _who(who: Requester) -> Who:
    client_id = getattr(who, "client_id", None) or ""
    name, version = getattr(who, "software", ("", ""))
    return Who(who.principal[:TEXT_KEPT_MAX], client_id[:TEXT_KEPT_MAX], name, version, who.host)
