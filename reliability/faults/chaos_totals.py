"""Results of chaos runs, added up over any number of runs in one file.

Every round is added when it ends, whatever its verdict: seed, date, commit, figures, and how long
each client waited at each fault. So a run that is interrupted loses only its last round, and the
next one goes on adding. Percentiles are over everything that is in the file.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harness.machine import commit, describe
from reliability.faults.chaos import Outcome
from reliability.faults.chaos_report import by_scenario, faults_of, judged

SUMMED = (
    "faults",
    "sent",
    "acknowledged",
    "delivered",
    "lost",
    "double",
    "out of order",
    "changed or vanished",
    "stale reads",
    "other",
    "seconds",
)
Document = dict[str, Any]


def load(file: Path) -> Document:
    """Return what is in the file; nothing yet is fine."""
    if not file.exists():
        return {"rounds": [], "faults": []}
    found: Document = json.loads(file.read_text(encoding="utf-8"))
    return found


def add(file: Path, outcome: Outcome, *, goal: str) -> Document:
    """Add a round to the file; returns all that is in it now."""
    known = load(file)
    rounds = [*known["rounds"], _as_round(outcome)]
    faults = [*known["faults"], *faults_of([outcome])]
    document = {
        "question": "chaos",
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": describe(),
        "goal": goal,
        "totals": totals(rounds),
        "rows": by_scenario((row, name, promise, waits) for row, name, promise, waits in faults),
        "rounds": rounds,
        "faults": faults,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(_text(document), encoding="utf-8")
    new.replace(file)
    return document


def totals(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums over rounds."""
    sums = {name: sum(one[name] for one in rounds) for name in SUMMED}
    broken = sum(one["verdict"] != "ok" for one in rounds)
    return {"rounds": len(rounds), "broken rounds": broken, **sums}


def _as_round(outcome: Outcome) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        **judged(outcome),
        "problems": outcome.problems[:10],
    }


def _text(document: Document) -> str:
    """Return JSON with a line for each fault: there are thousands."""
    head = {name: value for name, value in document.items() if name != "faults"}
    lines = ",\n".join(f"  {json.dumps(fault)}" for fault in document["faults"])
    return json.dumps(head, indent=1)[:-2] + f',\n "faults": [\n{lines}\n ]\n}}\n'
