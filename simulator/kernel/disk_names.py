"""The names on a simulated disk: those that processes see, and those that are durable.

    create, rename, remove ─► changes, in order ──sync of the directory──► durable

A change may have two names (a rename) and is atomic. After a power loss the oldest changes are
kept: of each directory, or of the whole disk, as with a journal.

Removal of directories and links are not simulated.
"""

import errno
from collections.abc import Iterator
from random import Random

from simulator.kernel.inode import Inode

_LOSSES = (0.0, 0.2, 0.5, 1.0)
"""How probably the next change is the first one that is lost."""

Change = tuple[tuple[str, Inode | None], ...]
"""Names that change together, each with the file that it refers to afterwards."""


def parent(path: str) -> str:
    """Return the directory of a path; "" is the data directory."""
    return path.rpartition("/")[0]


class Names:
    """See the module."""

    def __init__(self) -> None:
        self.files: dict[str, Inode] = {}
        self.directories: dict[str, bool] = {"": True}
        """Whether it is durable."""
        self.used = 0
        """Bytes of all files that have a name."""
        self.durable: dict[str, Inode] = {}
        """Every name that a loss of power leaves, by its path."""
        self._pending: list[Change] = []

    def create(self, path: str) -> Inode:
        """Return a new file. Raises FileNotFoundError where its directory is not there."""
        self._require(parent(path))
        inode = Inode(path)
        self._change((path, inode))
        return inode

    def rename(self, source: str, target: str) -> None:
        """Rename, replacing `target`. Raises FileNotFoundError."""
        if source not in self.files:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        self._require(parent(target))
        self._change((source, None), (target, self.files[source]))

    def remove(self, path: str) -> None:
        """Remove a file; an absent one is fine."""
        if path in self.files:
            self._change((path, None))

    def make_directory(self, path: str, *, is_durable: bool) -> None:
        """Make it and its parents; an existing one is fine."""
        parts = path.split("/")
        for count in range(1, len(parts) + 1):
            self.directories.setdefault("/".join(parts[:count]), is_durable)

    def directories_in(self, path: str) -> list[str]:
        """Return the paths of the directories in a directory."""
        return [name for name in self.directories if name and parent(name) == path]

    def settle(self, directory: str) -> None:
        """Make the changes of a directory durable, and those that they can not be without.

        Raises FileNotFoundError.
        """
        self._require(directory)
        for below in self.directories_in(directory):
            self.directories[below] = True
        directories = {directory: None}
        settled: list[Change] = []
        left: list[Change] = []
        for change in reversed(self._pending):
            touched = dict.fromkeys(parent(path) for path, _ in change)
            if touched.keys() & directories.keys():
                directories.update(touched)
                settled.append(change)
            else:
                left.append(change)
        for change in reversed(settled):
            _apply(self.durable, change)
        self._pending = left[::-1]

    def lose_power(self, rng: Random) -> None:
        """Lose any part of the pending changes; files keep what they hold."""
        self._lose_directories(rng)
        names = dict(self.durable)
        is_journal, loss = rng.random() < 0.5, rng.choice(_LOSSES)
        cut: dict[str, None] = {}
        for change in self._pending:
            touched = ["" if is_journal else parent(path) for path, _ in change]
            if any(one in cut for one in touched) or rng.random() < loss:
                cut.update(dict.fromkeys(touched))
            else:
                _apply(names, change)
        self.files = {
            path: name for path, name in names.items() if parent(path) in self.directories
        }
        for path, inode in self.files.items():
            inode.path, inode.is_linked = path, True
        self.durable = dict(self.files)
        self._pending.clear()

    def lose(self, prefix: str) -> None:
        """Forget whatever begins so, directories too, as if it had never been there."""
        for path in [file for file in self.files if file.startswith(prefix)]:
            self.used -= len(self.files.pop(path).data)
        for path in [directory for directory in self.directories if directory.startswith(prefix)]:
            del self.directories[path]
        self.durable = {
            path: one for path, one in self.durable.items() if not path.startswith(prefix)
        }
        self._pending = [
            change
            for change in self._pending
            if not any(path.startswith(prefix) for path, _ in change)
        ]

    def count_used(self) -> None:
        """Count the bytes of all files anew."""
        self.used = sum(len(inode.data) for inode in self.files.values())

    def inodes(self) -> Iterator[Inode]:
        """Return every file that has a name, or may have one again after a loss of power."""
        changed = [one for change in self._pending for _, one in change if one is not None]
        yield from dict.fromkeys((*self.files.values(), *self.durable.values(), *changed))

    def copy(self) -> "Names":
        """Return names that change apart from these, for the same files."""
        copied = Names()
        copied.files, copied.directories = dict(self.files), dict(self.directories)
        copied.used, copied.durable = self.used, dict(self.durable)
        copied._pending = list(self._pending)
        return copied

    def duplicate(self, begins: str) -> "Names":
        """Return names and files of their own, alike, of the paths that begin so."""
        twins = {inode: inode.copy() for inode in self.inodes() if inode.path.startswith(begins)}
        own = {inode: twins.get(inode) for inode in self.inodes()}
        copied = Names()
        copied.directories = dict(self.directories)
        copied.files = {path: one for path, file in self.files.items() if (one := own[file])}
        copied.durable = {path: one for path, file in self.durable.items() if (one := own[file])}
        copied._pending = [
            tuple((path, None if file is None else own[file]) for path, file in change)
            for change in self._pending
            if all(path.startswith(begins) for path, _ in change)
        ]
        copied.count_used()
        return copied

    def _require(self, directory: str) -> None:
        if directory not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", directory)

    def _change(self, *changes: tuple[str, Inode | None]) -> None:
        for path, inode in changes:
            before = self.files.pop(path, None)
            if before is not None:
                before.is_linked = False
                self.used -= len(before.data)
            if inode is not None:
                inode.path, inode.is_linked = path, True
                self.used += len(inode.data)
                self.files[path] = inode
        self._pending.append(changes)

    def _lose_directories(self, rng: Random) -> None:
        for path, is_durable in list(self.directories.items()):
            if not is_durable and rng.random() < 0.5:
                for name in [
                    directory
                    for directory in self.directories
                    if f"{directory}/".startswith(f"{path}/")
                ]:
                    del self.directories[name]
            elif path in self.directories:
                self.directories[path] = True


def _apply(names: dict[str, Inode], change: Change) -> None:
    for path, inode in change:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode
