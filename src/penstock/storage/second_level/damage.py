"""Which extent files of a log are known to be damaged, and how each is written anew.

    scrub, fetch, look-up, housekeeper ─► heard(error) ─► files ─► repair(number) ─► Repair

Damage is known as long as the log is open: another start finds it again.

Source: docs/adr/0109. Where the batches come from is not known here: broker/sets asks for them.
"""

from collections.abc import Callable

from penstock.base.callbacks import nothing
from penstock.base.errors import PlatformError
from penstock.base.ids import TopicPartition
from penstock.base.ports import Lane
from penstock.storage.errors import ExtentDamaged
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.second_level.held import Extent, HeldExtents
from penstock.storage.second_level.off_loop import OffLoop
from penstock.storage.second_level.pieces import ExtentPieces
from penstock.storage.second_level.range_rebuild import ExtentPiece, RangeRebuild
from penstock.storage.second_level.reading import ExtentPlace
from penstock.storage.second_level.rebuild import Missing, Rebuild
from penstock.storage.second_level.split import Identity

Took = Callable[[bool | None, PlatformError | None], None]
WentOn = Callable[[Missing | bool | None, PlatformError | None], None]


class ExtentDamage:
    """The damaged files of one log. Used on the loop."""

    def __init__(
        self, place: ExtentPlace, held: Callable[[], HeldExtents], off_loop: OffLoop
    ) -> None:
        """`held()` returns what the level holds now."""
        self._place = place
        self._held = held
        self._off_loop = off_loop
        self.files: dict[int, str] = {}
        """Number of each, and what is wrong with it."""
        self.pieces = ExtentPieces(place, held, off_loop)
        """Gives extents to other members, where theirs are damaged."""

    def heard(self, error: BaseException | None) -> None:
        """Note a file that could not be read because it is damaged; ignore other errors."""
        if isinstance(error, ExtentDamaged):
            self.files.setdefault(error.file_number, error.reason)

    def forget(self, file_number: int) -> None:
        """A file is gone."""
        self.files.pop(file_number, None)

    def is_rewritten(self, key: TopicPartition, start_offset: int, end_offset: int) -> bool:
        """Whether batches in [start, end) of a partition are not as they were produced."""
        extents = self._held().of(key, start_offset, end_offset)
        return any(extent.entry.generation for extent in extents)

    def extents_in(self, file_number: int) -> list[Extent]:
        """Return what is held of a file; none if it is about to be removed."""
        held = (extent for _, extent in self._held().in_file(file_number))
        return [extent for extent in held if extent is not None]

    def repair_range(
        self, key: TopicPartition, end_offset: int, unfinished: str, identity: Identity
    ) -> "RangeRepair | None":
        """Begin to write a partition's cleaned range anew, to `unfinished`; None: it is gone.

        Nothing below `end_offset` is left as it is.
        """
        extents = list(self._held().of(key))
        if not extents:
            return None
        rebuild = RangeRebuild(
            self._place, extents, end_offset=end_offset, unfinished=unfinished, identity=identity
        )
        return RangeRepair(rebuild, self._off_loop)

    def repair(self, file_number: int, unfinished: str, identity: Identity) -> "Repair":
        """Begin to write a file anew, to `unfinished`."""
        extents = self.extents_in(file_number)
        return Repair(
            Rebuild(self._place, file_number, extents, unfinished=unfinished, identity=identity),
            self._off_loop,
        )


class Repair:
    """One file that is being written anew. Used on the loop, one call at a time."""

    def __init__(self, rebuild: Rebuild, off_loop: OffLoop) -> None:
        self._rebuild = rebuild
        self._off_loop = off_loop

    @property
    def fetched_bytes(self) -> int:
        """Bytes of batches that came from other members."""
        return self._rebuild.fetched_bytes

    def go_on(self, batches: memoryview | None, done: WentOn) -> None:
        """Write the next part; `done(step, error)` on the loop, with what Rebuild.go_on says."""

        def finished(step: Missing | bool | None, error: BaseException | None) -> None:
            done(step, None if error is None else as_platform_error(error))

        self._off_loop(lambda: self._rebuild.go_on(batches), finished, Lane.WORK)

    def abandon(self) -> None:
        """Close its files."""
        self._off_loop(self._rebuild.close, nothing, Lane.WORK)


class RangeRepair:
    """One range that is being written anew. Used on the loop, one call at a time."""

    def __init__(self, rebuild: RangeRebuild, off_loop: OffLoop) -> None:
        self._rebuild = rebuild
        self._off_loop = off_loop

    @property
    def next(self) -> tuple[int, int]:
        """Of which offset the extent is to be asked for, and from which byte on."""
        return self._rebuild.offset, self._rebuild.skip

    @property
    def fetched_bytes(self) -> int:
        """Bytes that came from the other member."""
        return self._rebuild.fetched_bytes

    def take(self, piece: ExtentPiece, done: Took) -> None:
        """Write what can be written now; `done(more, error)` on the loop: RangeRebuild.take."""

        def finished(more: bool | None, error: BaseException | None) -> None:
            done(more, None if error is None else as_platform_error(error))

        self._off_loop(lambda: self._rebuild.take(piece), finished, Lane.WORK)

    def abandon(self) -> None:
        """Close its file."""
        self._off_loop(self._rebuild.close, nothing, Lane.WORK)
