"""The part of a retention pass that judges extents: partition after partition, some in a turn.

    rules ─► each extent of each partition: needed? ─► who needs which file (file_pins.py)
      ─► what is to be dropped of each partition

Source: docs/adr/0103.
"""

from collections.abc import Callable

from penstock.base.ids import TopicPartition
from penstock.base.ports import Scheduler
from penstock.storage.second_level.file_pins import FilePins
from penstock.storage.second_level.held import HeldExtents
from penstock.storage.stores.rules import RetentionRules

EXTENTS_PER_SLICE = 500
"""Judged, dropped, compared or taken in one turn: about a millisecond of the loop."""

Drops = list[tuple[TopicPartition, int | None]]
"""Partitions, and where what is needed of each begins; None: nothing is."""


class ExtentJudge:
    """Judges what one second level holds."""

    def __init__(self, held: Callable[[], HeldExtents], scheduler: Scheduler) -> None:
        """`held()` returns what the level holds now."""
        self._held = held
        self._scheduler = scheduler
        self.pins = FilePins()
        """Who needs which file, as the last pass has found it."""

    def judge(self, rules: RetentionRules, done: Callable[[Drops], None]) -> None:
        """Judge all extents; `done(drops)`, at once or later."""
        self._slice(rules, self._held().partitions(), [], done)

    def _slice(
        self,
        rules: RetentionRules,
        left: list[TopicPartition],
        drops: Drops,
        done: Callable[[Drops], None],
    ) -> None:
        count = 0
        while left and count < EXTENTS_PER_SLICE:
            key = left.pop()
            judged, gone = self._judge(rules, key)
            count += 1 + judged
            if gone != 0:
                drops.append((key, gone))
        if left:
            self._scheduler.call_soon(lambda: self._slice(rules, left, drops, done))
            return
        self.pins.end_pass()
        done(drops)

    def _judge(self, rules: RetentionRules, key: TopicPartition) -> tuple[int, int | None]:
        """Return how many extents were judged, and where what is needed begins.

        0: all is; None: the partition is gone.
        """
        partition = rules.partitions.get(key)
        if partition is None:
            return 0, None
        settings = rules.settings_of(key)
        count = gone = 0
        for extent in self._held().of(key):
            count += 1
            if rules.is_needed(partition, settings, extent):
                self.pins.pin(extent, is_movable=settings.is_movable)
            else:
                gone = extent.end_offset
        return count, gone
