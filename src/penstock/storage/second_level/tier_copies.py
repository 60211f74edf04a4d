"""What a log's second level gives to the tier, off the loop: plans of objects, and their files.

    stable ends ─► what may be copied (as it is now) ─► plan ─► build

Both work on the extents as they are when they begin. What retention drops between the two is not
there any more when a plan is built: that fails, and the next plan goes without.

Source: docs/adr/0121. What is cut and written: objects.py. Who copies, and when: broker/sets.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition
from penstock.base.ports import Lane
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.second_level.held import Extent, HeldExtents
from penstock.storage.second_level.objects import Waiting, build_object, plan_objects, waiting
from penstock.storage.second_level.off_loop import OffLoop
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.split import Identity
from penstock.tier.copies.effects import Plan
from penstock.tier.copies.source import Image

Planned = Callable[[Sequence[Plan] | None, PlatformError | None], None]
Built = Callable[[Image | None, PlatformError | None], None]
EXTENTS_MAX = 2000
"""Looked at for one plan: 10 ms of the loop. What is behind them comes in a later one."""
EXTENTS_OF_ONE_MAX = 200
"""Of them, of one partition: none keeps the others out."""


class TierCopies:
    """The extents of one open log, for whoever copies them. Used on the loop."""

    def __init__(
        self, place: ExtentPlace, held: Callable[[], HeldExtents], off_loop: OffLoop
    ) -> None:
        """`held()` returns what the level holds now."""
        self._place = place
        self._held = held
        self._off_loop = off_loop

    def waiting(
        self, ends: Mapping[TopicPartition, int], stable: Mapping[TopicPartition, int]
    ) -> Waiting:
        """Return what of the partitions in `stable` may be copied behind their ends in the tier.

        `stable` has their last stable offsets. Of many extents it is the first ones.
        """
        held, left = self._held(), EXTENTS_MAX
        found: dict[TopicPartition, list[Extent]] = {}
        for key, stable_end in stable.items():
            end = ends.get(key, 0)
            first = islice(held.of(key, end), min(EXTENTS_OF_ONE_MAX, left))
            if extents := waiting(list(first), end, stable_end):
                found[key] = extents
                left -= len(extents)
        return found

    def plan(
        self,
        extents: Waiting,
        ends: Mapping[TopicPartition, int],
        count_max: int,
        object_bytes: int,
        done: Planned,
    ) -> None:
        """Tell what the next objects are to have: `done(plans, error)` on the loop."""
        place = self._place

        def finished(plans: Sequence[Plan] | None, error: BaseException | None) -> None:
            done(plans, None if error is None else as_platform_error(error))

        self._off_loop(
            lambda: plan_objects(place, extents, ends, count_max, object_bytes),
            finished,
            Lane.WORK,
        )

    def build(self, plan: Plan, identity: Identity, done: Built) -> None:
        """Give the file of an object: `done(image, error)` on the loop."""
        place = self._place
        held = self._held()
        extents = {one.topic_partition: list(held.of(*one)) for one in plan}

        def finished(image: Image | None, error: BaseException | None) -> None:
            done(image, None if error is None else as_platform_error(error))

        self._off_loop(lambda: build_object(place, extents, plan, identity), finished, Lane.WORK)
