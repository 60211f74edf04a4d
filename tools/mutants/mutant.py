"""What a planted bug is, and how it gets into a copy of the source.

A bug is one or a few replacements of exact text. The text must stand in its file exactly once: code
that was changed since then fails loudly, so that a bug never silently stops being planted.

It deliberately does not look for bugs to plant (mutation operators do that): each one here is a
mistake that somebody made in a system of this kind, or that the design exists to prevent.
"""

import ast
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from simulator.reach.functions import of_tree

SOURCE = "src/penstock"
PASS = "pass"


class AnchorLost(Exception):
    """The text that a bug replaces does not stand exactly once in its file."""


class Kind(StrEnum):
    """What sort of mistake it is; the score is told for each."""

    GUARD = "guard"
    """A check, a sync, a wait or a step is left out, or always says yes."""
    STALE = "stale-state"
    """A decision is made by what was so earlier, or by somebody else's copy of it."""
    ORDER = "order"
    """Both steps are there, the wrong one comes first."""
    RANGE = "range"
    """A bound of a range or a count is one off, or inclusive where it is exclusive."""
    SNAPSHOT = "memory-vs-snapshot"
    """What is in memory, what a snapshot says and what replay makes of the log are not the same."""
    CLEARED = "cleared-early-or-late"
    """State outlives what it belongs to, or is forgotten while it is still needed."""
    EPOCH = "wrong-epoch"
    """An epoch, term or generation is compared with another one than that it belongs to."""


class Edit(NamedTuple):
    """Put `new` in the place of `old` in a file; `path` is relative to src/penstock."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One planted bug."""

    name: str
    subject: str
    """A heading of the table."""
    kind: Kind
    breaks: str
    """What goes wrong with it, as one sentence without a full stop."""
    edits: tuple[Edit, ...]
    near: tuple[str, ...]
    """Test files and directories to try first, the quickest to find it in front."""
    excuse: str = ""
    """Where no test can find it: why that is no gap."""

    def mutated(self, root: Path) -> Mapping[str, str]:
        """Return the changed text of each changed file, by its path under `root`.

        Raises:
            AnchorLost: the source is not what it was when the bug was written down.
        """
        texts: dict[str, str] = {}
        for path, old, new in self.edits:
            place = f"{SOURCE}/{path}"
            text = texts.get(place) or (root / place).read_text()
            count = text.count(old)
            if count != 1:
                raise AnchorLost(
                    f"{self.name}: {place} has {count} times, and should have once:\n{old}\n"
                    "find where that went, and change the bug's edit in tools/mutants"
                )
            texts[place] = text.replace(old, new)
        for place, text in texts.items():
            ast.parse(text, place)
        return texts

    def functions(self, root: Path) -> set[str]:
        """Return the functions that it changes, named as `simulator.reach` names them.

        What stands in no function counts for all of its module.
        """
        found: set[str] = set()
        for path, old, _ in self.edits:
            text = (root / SOURCE / path).read_text()
            first = text.count("\n", 0, text.index(old) + len(old) - len(old.lstrip())) + 1
            names = [
                (node.end_lineno - node.lineno, name)
                for name, node in of_tree(ast.parse(text))
                if node.end_lineno is not None and node.lineno <= first <= node.end_lineno
            ]
            every = [name for name, _ in of_tree(ast.parse(text))]
            found |= {f"{path}:{name}" for name in ([min(names)[1]] if names else every)}
        return found

    def fingerprint(self, root: Path) -> str:
        """Return a name of the bug within the present source of its files."""
        digest = hashlib.sha256()
        for place, text in sorted(self.mutated(root).items()):
            digest.update(f"{place}\0{text}\0".encode())
        return digest.hexdigest()[:16]


def plant(
    name: str,
    subject: str,
    breaks: str,
    *edits: tuple[str, str, str],
    kind: Kind,
    near: tuple[str, ...],
) -> Mutant:
    """Return a planted bug; each edit is (path under src/penstock, text, text in its place)."""
    return Mutant(
        name=name,
        subject=subject,
        kind=kind,
        breaks=breaks,
        edits=tuple(Edit(*edit) for edit in edits),
        near=near,
    )
