"""The ledger: entries in the store, one after another, and snapshots of what they say together.

    _penstock/entries/00000000000000000007.json      entries.py
    _penstock/snapshots/00000000000000000007.json    the manifest after entry 7

An entry is a file that must be the first of its name. It names the one before by its checksum. So
of two writers who go on from the same state the second is refused, and learns it. Entries are never
deleted; a snapshot, after every SNAPSHOT_EVERY entries, says nothing that they do not say.

Source: docs/adr/0164.
"""

import re
from dataclasses import dataclass

from penstock.archive.entries import (
    FIRST,
    Entry,
    What,
    digest,
    open_entry,
    open_snapshot,
    seal,
)
from penstock.archive.errors import ArchiveLies, ArchiveTaken, NoArchive
from penstock.archive.files import OWN, ArchiveFiles
from penstock.archive.manifest import Contradiction, Manifest, of_snapshot, to_snapshot

ENTRIES, SNAPSHOTS = f"{OWN}/entries", f"{OWN}/snapshots"
SNAPSHOT_EVERY = 64
_NUMBER = re.compile(r"/(\d{20})\.json$")


@dataclass(slots=True)
class _Read:
    """How far entries were read, and what they say."""

    manifest: Manifest
    number: int = 0
    entry: str = FIRST
    """The checksum of entry `number`."""


class Ledger:
    """Reads what is written down, and writes more. `manifest` is what it has read or written."""

    def __init__(self, files: ArchiveFiles) -> None:
        self.files = files
        self._read = _Read(Manifest())

    @property
    def manifest(self) -> Manifest:
        return self._read.manifest

    @property
    def is_new(self) -> bool:
        """Whether there is no archive yet."""
        return self._read.number == 0

    def load(self, *, with_every_entry: bool = False) -> Manifest:
        """Read the present state; that of a place without entries is empty.

        `with_every_entry` reads all, and compares the snapshots with them. Raises ArchiveLies,
        StoreError.
        """
        entries, snapshots = self._numbers(ENTRIES), self._numbers(SNAPSHOTS)
        last = max([*entries, *snapshots], default=0)
        missing = sorted(set(range(1, last + 1)) - entries)
        if missing:
            raise ArchiveLies(_entry_name(missing[0]), "it is missing")
        read = _Read(Manifest())
        if snapshots and not with_every_entry:
            read = self._snapshot(max(snapshots))
        for number in range(read.number + 1, last + 1):
            self._follow(read, number)
            if number in snapshots:
                self._compare(read)
        self._read = read
        return read.manifest

    def existing(self, *, with_every_entry: bool = False) -> Manifest:
        """Read the present state. Raises NoArchive, ArchiveLies, StoreError."""
        manifest = self.load(with_every_entry=with_every_entry)
        if self.is_new:
            raise NoArchive("there is no archive at this place: penstock archive run makes one")
        return manifest

    def commit(self, what: What) -> None:
        """Write an entry durably. Raises ArchiveTaken, StoreError."""
        number = self._read.number + 1
        data = seal(Entry(number=number, previous=self._read.entry, what=what))
        self.manifest.apply(what)  # before it is written: what does not fit must never be
        if not self.files.put_new(_entry_name(number), data):
            raise ArchiveTaken(
                "another command has written to the archive meanwhile; what was not committed yet"
                " does not count: run again"
            )
        self._read.number, self._read.entry = number, digest(data)
        if number % SNAPSHOT_EVERY == 0:
            snapshot = to_snapshot(self.manifest, number, self._read.entry)
            self.files.put_new(_snapshot_name(number), seal(snapshot))

    def _numbers(self, place: str) -> set[int]:
        found = map(_NUMBER.search, self.files.names(place))
        return {int(match[1]) for match in found if match is not None}

    def _snapshot(self, number: int) -> _Read:
        name = _snapshot_name(number)
        snapshot = open_snapshot(name, self._bytes(name))
        if snapshot.number != number:
            raise ArchiveLies(name, f"it is that of entry {snapshot.number}")
        return _Read(of_snapshot(snapshot), number, snapshot.entry)

    def _follow(self, read: _Read, number: int) -> None:
        """Take the next entry in. Raises ArchiveLies."""
        name = _entry_name(number)
        data = self._bytes(name)
        entry = open_entry(name, data)
        if entry.number != number or entry.previous != read.entry:
            raise ArchiveLies(name, "it does not follow the entry before it")
        try:
            read.manifest.apply(entry.what)
        except Contradiction as error:
            raise ArchiveLies(name, str(error)) from error
        read.number, read.entry = number, digest(data)

    def _compare(self, read: _Read) -> None:
        name = _snapshot_name(read.number)
        snapshot = open_snapshot(name, self._bytes(name))
        if snapshot != to_snapshot(read.manifest, read.number, read.entry):
            raise ArchiveLies(name, "the entries up to it say something else; delete it")

    def _bytes(self, name: str) -> bytes:
        data = self.files.read(name)
        if data is None:
            raise ArchiveLies(name, "it is missing")
        return data


def _entry_name(number: int) -> str:
    return f"{ENTRIES}/{number:020d}.json"


def _snapshot_name(number: int) -> str:
    return f"{SNAPSHOTS}/{number:020d}.json"
