"""Random walks of group coordinators, on copies of the logs of a run.

    a coordinator has loaded a partition ─► its records ─► a separate coordinator, with a journal
        and a clock of its own ─► a hundred requests, confirmations and steps of time
        ─► are all answers and counts right, and do positions equal a replay of the log?

Members in a run mostly behave well: old member ids, requests of past generations, or two joins by
two connections are rare there. In a walk the journal confirms late and out of order, is rewritten,
unloaded and loaded again, also with records of a later version.

The duties of a coordinator's broker while masterships change are walked in group_duties.py.

Answers are checked by checks/groups/rules.py, counts by checks/groups/counts.py, and the log is
read by checks/groups/log.py.

Source: docs/adr/0062.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from penstock.coordinator.errors import MalformedRecord
from penstock.coordinator.runtime import CoordinatorRuntime
from penstock.groups.assigned.names import decode_name
from simulator.checks.groups.log import Entry
from simulator.checks.patched import patched
from simulator.trials.group.duties import DutiesWalk
from simulator.trials.group.walk import GroupWalk

SHARE = 4.0
"""The n-th loading of a run is tried with this share of 1/n, but no less than SHARE_MIN."""
SHARE_MIN = 0.1
STEPS = 90
RECORDS_MAX = 400
"""Of a longer log the newest."""
LOADINGS_MAX = 64

Found = Callable[[str], None]


class GroupTrials:
    """See the module."""

    def __init__(self, found: Found) -> None:
        self._found = found
        self._random = Random("group trials")  # noqa: S311  reproducible on purpose
        self._loading: dict[tuple[int, int], list[Entry]] = {}
        self._is_walking = False
        self._loadings = 0
        self.newest: list[Entry] = []
        """What was loaded last and was not empty."""
        self.walks = 0

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Try what coordinators load, for as long as this lasts."""

        def load(
            real: Callable[..., Any], owner: Any, partition: int, record: Any, writer: Any = None
        ) -> Any:
            # What waits for the end of a transaction is not known to count.
            if not self._is_walking and writer is None:
                self._note(self._loading.setdefault((id(owner), partition), []), record)
            return real(owner, partition, record, writer)

        def finish(real: Callable[..., Any], owner: Any, partition: int) -> Any:
            if not self._is_walking:
                self._loaded(self._loading.pop((id(owner), partition), []))
            return real(owner, partition)

        with (
            patched(CoordinatorRuntime, "load", load),
            patched(CoordinatorRuntime, "finish_loading", finish),
        ):
            yield

    def _note(self, entries: list[Entry], record: Any) -> None:
        """Take note of a record; of a loading that came to no end nothing is kept for ever.

        The rules here are those of classic groups: a consumer group has only its positions in them.
        """
        if record[0] is not None and not _is_of_a_consumer_group(bytes(record[0])):
            entries.append((bytes(record[0]), record[1]))
            del entries[:-RECORDS_MAX]
        while len(self._loading) > LOADINGS_MAX:
            del self._loading[next(iter(self._loading))]

    def _loaded(self, entries: list[Entry]) -> None:
        self._loadings += 1
        self.newest = entries or self.newest
        if self._random.random() < max(SHARE_MIN, SHARE / self._loadings):
            self.walk(entries)
            self.walk_duties()

    def walk_duties(self) -> None:
        """Go once through masterships that come and go, and tell what is wrong."""
        for text in list(DutiesWalk(self._random).run(STEPS))[:3]:
            self._found(f"had masterships come and gone so: {text}")

    def walk(self, entries: Sequence[Entry], steps: int = STEPS) -> None:
        """Go once from what a log has, and tell what is wrong."""
        self.walks += 1
        log, self._is_walking = logging.getLogger("penstock.groups"), True
        was_disabled, log.disabled = log.disabled, True  # it did not happen
        try:
            texts = list(GroupWalk(entries, self._random).run(steps))
        finally:
            self._is_walking, log.disabled = False, was_disabled
        for text in texts[:3]:
            self._found(f"had a coordinator been asked so: {text}")


def _is_of_a_consumer_group(key: bytes) -> bool:
    try:
        return decode_name(key) is not None
    except MalformedRecord:
        return False
