"""What was found out so far, kept in reliability/results/mutants.json so that a run can go on.

A result counts as long as the bug planted in today's source is the text that it was planted in: its
fingerprint, and the test that found it is still there. What was changed since is tried again.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Any

from .excuses import EXCUSES
from .mutant import Mutant
from .runner import BROKEN, FOUND, Outcome

PLACE = "reliability/results/mutants.json"


class Detector(StrEnum):
    """How the simulator looks for a bug; the results have a part for each, beside the tests'."""

    SEEDS = "simulator"
    """Random faults: see `simulator`."""
    DIRECTED = "directed"
    """Chosen faults: see `directed`."""


class Results:
    """The file. Written after every bug."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._path = root / PLACE
        self._known: dict[str, Any] = {"runs": {}, "mutants": {}}
        self._load()

    def _load(self) -> None:
        """Take over what is in the file: another run may have added to it."""
        if self._path.exists():
            self._known = json.loads(self._path.read_text())

    @property
    def runs(self) -> dict[str, Any]:
        """When and on which commit each kind of run was last made."""
        runs: dict[str, Any] = self._known["runs"]
        return runs

    def note_run(self, kind: str, **facts: object) -> None:
        """Note a run of a kind: "clean", "tests" or "simulator"."""
        self._load()
        self.runs[kind] = facts
        self._save()

    def of(self, mutant: Mutant) -> dict[str, Any] | None:
        """Return what is known of a bug."""
        found: dict[str, Any] | None = self._known["mutants"].get(mutant.name)
        return found

    def is_known(self, mutant: Mutant, fingerprint: str) -> bool:
        """Whether this bug in this source was found, or was not and there is a reason for that.

        What survived without a reason is tried again: a test may have been written since.
        """
        found = self.of(mutant)
        if found is None or found["fingerprint"] != fingerprint:
            return False
        if found.get("status") == FOUND:
            return self._is_there(found["test"])
        return "status" in found and mutant.name in EXCUSES

    def _is_there(self, test: str) -> bool:
        """Whether a file has the test, or its class: the page is not to name what is gone."""
        place, _, inner = test.partition("::")
        name = inner.partition("::")[0].partition("[")[0]
        path = self.root / place
        made = (
            rf"^(?:(?:async )?def |class )?{re.escape(name)}\b"  # Hypothesis' classes are assigned
        )
        return path.exists() and re.search(made, path.read_text(), re.MULTILINE) is not None

    def note(self, mutant: Mutant, fingerprint: str, outcome: Outcome) -> None:
        """Keep what the tests found."""
        if outcome.status == BROKEN:
            return
        self._load()
        before = self.of(mutant) or {}
        others = {one.value: before[one] for one in Detector if one in before}
        self._put(mutant, {"fingerprint": fingerprint, **asdict(outcome), **others})

    def note_by(
        self, detector: Detector, mutant: Mutant, fingerprint: str, facts: Mapping[str, object]
    ) -> None:
        """Keep what the simulator found; what others found stays."""
        self._load()
        before = self.of(mutant) or {"fingerprint": ""}
        self._put(mutant, {**before, detector.value: {**facts, "fingerprint": fingerprint}})

    def by(self, detector: Detector, mutant: Mutant) -> dict[str, Any] | None:
        """Return what the simulator found, None where it was not tried."""
        found: dict[str, Any] | None = (self.of(mutant) or {}).get(detector)
        return found

    def is_tried_by(self, detector: Detector, mutant: Mutant, fingerprint: str) -> bool:
        """Whether the simulator was tried with this bug in this source."""
        return (self.by(detector, mutant) or {}).get("fingerprint") == fingerprint

    def is_simulated(self, mutant: Mutant) -> bool:
        """Whether the simulator has found it, one way or the other."""
        return any((self.by(one, mutant) or {}).get("red") for one in Detector)

    def _put(self, mutant: Mutant, entry: dict[str, Any]) -> None:
        self._known["mutants"][mutant.name] = entry
        self._save()

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self._known, indent=1, sort_keys=True) + "\n"
        unfinished = self._path.with_suffix(".tmp")
        unfinished.write_text(text)
        unfinished.replace(self._path)
