"""The scrub of a second level: its manifest, then every byte of its files, a slice at a time.

    manifest on the disk ─► as in memory? else written again
    file, oldest first ─► checked block by block (extents/check.py) ─► next file
        damaged ─► known as such, and passed over from then on; the other files go on

Source: docs/adr/0109; storage/recover/scrub.py for the log, replica/scrubber.py for the rate.
"""

from collections import deque
from collections.abc import Callable, Generator
from typing import NamedTuple

from penstock.base.errors import PlatformError
from penstock.base.ports import DiskFile, Lane
from penstock.extents.check import checking
from penstock.extents.errors import ExtentError
from penstock.extents.reader import Directory
from penstock.storage.errors import CorruptFile, ExtentDamaged, LogBusy, NewerFormat
from penstock.storage.read.needs_disk import as_platform_error
from penstock.storage.second_level.damage import ExtentDamage
from penstock.storage.second_level.files import entry_of, read_manifest, write_manifest
from penstock.storage.second_level.manifest import FileEntry, Manifest, extent_path
from penstock.storage.second_level.off_loop import OffLoop
from penstock.storage.second_level.reading import ExtentPlace


class ExtentSlice(NamedTuple):
    """The result of one slice."""

    is_over: bool
    """Whether all was checked."""
    read_bytes: int = 0
    rebuilt: int = 0
    """1 if the manifest was written again."""
    damaged: int = 0
    """1 if a file is damaged of which that was not known."""


Checked = Callable[[ExtentSlice | None, PlatformError | None], None]
Change = Callable[[Callable[[Callable[[], None]], None]], None]
"""Calls what it is given when no file comes or goes, which calls what it gets when it has ended."""


class ExtentScrub:
    """The scrub of one log's second level. Used on the loop, one slice at a time."""

    def __init__(
        self,
        place: ExtentPlace,
        damage: ExtentDamage,
        *,
        manifest: Callable[[], Manifest],
        off_loop: OffLoop,
        change: Change,
    ) -> None:
        """`manifest()` returns the one that counts."""
        self._place = place
        self._damage = damage
        self._manifest = manifest
        self._off_loop = off_loop
        self._change = change
        self._todo: deque[FileEntry] | None = None
        """Files that the pass has still to check; None between passes."""
        self._check: FileCheck | None = None
        self.is_closed = False

    def begin(self) -> None:
        """Let the next slice be the first of a pass."""
        check, self._check = self._check, None
        self._todo = None
        if check is not None:
            check.close()

    def go_on(self, max_bytes: int, done: Checked) -> None:
        """Check about `max_bytes` more; `done(slice, error)` on the loop, LogBusy when closed."""
        if self.is_closed:
            done(None, LogBusy(self._place.directory))
        elif self._todo is None:
            self._todo = deque(self._manifest().files)
            self._check_manifest(done)
        elif self._check is None and not self._next_file():
            self.begin()
            done(ExtentSlice(is_over=True), None)
        else:
            self._check_more(max_bytes, done)

    def _next_file(self) -> bool:
        """Take the next file that is still there, and is not known to be damaged."""
        there = {file.number for file in self._manifest().files}
        while self._todo:
            file = self._todo.popleft()
            if file.number in there and file.number not in self._damage.files:
                self._check = FileCheck(self._place, file)
                return True
        return False

    def _check_more(self, max_bytes: int, done: Checked) -> None:
        check = self._check
        assert check is not None

        def checked(read_bytes: int | None, error: BaseException | None) -> None:
            is_damaged = isinstance(error, ExtentDamaged)
            if (error is not None or check.is_over) and self._check is check:
                self._check = None
            if error is None or is_damaged:
                done(
                    ExtentSlice(is_over=False, read_bytes=read_bytes or 0, damaged=is_damaged), None
                )
            else:
                done(None, as_platform_error(error))

        self._off_loop(lambda: check.go_on(max_bytes), checked, Lane.WORK)

    def _check_manifest(self, done: Checked) -> None:
        """Write the manifest again if the disk has another one than memory."""

        def begin(end: Callable[[], None]) -> None:
            place, wanted = self._place, self._manifest()

            def checked(rebuilt: int | None, error: BaseException | None) -> None:
                end()
                if error is None:
                    done(ExtentSlice(is_over=False, rebuilt=rebuilt or 0), None)
                else:
                    done(None, as_platform_error(error))

            if self.is_closed:
                end()
                done(None, LogBusy(place.directory))
            else:
                self._off_loop(lambda: _restore_manifest(place, wanted), checked, Lane.WORK)

        self._change(begin)


def _restore_manifest(place: ExtentPlace, wanted: Manifest) -> int:
    """Return how many manifests were written: 1 if the one on the disk is not `wanted`."""
    try:
        found = read_manifest(place)
    except (CorruptFile, NewerFormat):
        found = None
    if found == wanted:
        return 0
    write_manifest(place, wanted)
    return 1


class FileCheck:
    """The check of one file. Used off the loop, one call at a time."""

    def __init__(self, place: ExtentPlace, file: FileEntry) -> None:
        self._place = place
        self._wanted = file
        self._steps: Generator[int, None, Directory] | None = None
        self._file: DiskFile | None = None
        self._size_bytes = 0
        self.is_over = False

    def go_on(self, max_bytes: int) -> int:
        """Check about `max_bytes` more; return how many were read.

        Raises ExtentDamaged, OSError.
        """
        try:
            return self._go_on(max_bytes)
        except BaseException:
            self.close()
            raise

    def _go_on(self, max_bytes: int) -> int:
        number, read_bytes = self._wanted.number, 0
        path = extent_path(self._place.directory, number)
        try:
            if self._steps is None:
                file = self._file = self._place.disk.open(path)
                self._size_bytes = file.size()
                self._steps = checking(path, self._size_bytes, file.read)
            while read_bytes < max_bytes:
                read_bytes += next(self._steps)
        except StopIteration as end:
            found = entry_of(self._wanted, self._size_bytes, end.value.entries)
            self.close()
            if found != self._wanted:
                reason = f"{path}: the manifest names {self._wanted}, this is {found}"
                raise ExtentDamaged(number, reason) from None
        except (ExtentError, FileNotFoundError) as error:
            raise ExtentDamaged(number, str(error)) from error
        return read_bytes

    def close(self) -> None:
        """Close the file; it is not gone on with."""
        self.is_over = True
        file, self._file = self._file, None
        if file is not None:
            file.close()
