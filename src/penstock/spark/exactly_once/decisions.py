"""Decisions: which transactions are a batch, and how they have ended.

    <batch>-<round>.json         the decision: these transactions are to be committed
    <batch>-<round>.ended.json   all have ended; those of the named partitions were aborted

A batch has a second round if transactions of the first one were aborted, by their time-out, after
the decision: its transactions are of the partitions that are missing. A file is never changed, and
none is written twice, so that two drivers cannot decide the same batch.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.client.produce import OpenTransaction
from penstock.spark.errors import DecisionTaken, DecisionUnreadable
from penstock.spark.exactly_once.checkpoint import Place
from penstock.spark.exactly_once.written import Witness, Written

FORMAT = 1
BATCHES_KEPT = 2
"""Decisions of that many batches stay: the last one counts, the others help who looks."""
_NAME = re.compile(r"^(\d{20})-(\d{3})(\.ended)?\.json$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A recorded decision; `aborted` is None until all of its transactions have ended."""

    batch: int
    round: int
    task_count: int
    written: tuple[Written, ...]
    """Of all tasks; in later rounds of those whose transactions were aborted in the one before."""
    aborted: frozenset[int] | None = None
    """Partitions of the rows that are not there, since their transactions were aborted."""

    @property
    def is_ended(self) -> bool:
        return self.aborted is not None

    @property
    def is_whole(self) -> bool:
        """Whether every row of the batch is there."""
        return self.aborted == frozenset()

    @property
    def transactions(self) -> list[OpenTransaction]:
        return [one.transaction for one in self.written if one.transaction is not None]


class Decisions:
    """The decisions of one query."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def last(self) -> Decision | None:
        """Return the newest one. Raises DecisionUnreadable, OSError."""
        found = _parsed(self._place.names())
        decided = [key for key, is_end in found if not is_end]
        if not decided:
            return None
        newest = max(decided)
        decision = _read(self._place, _name(newest))
        if (newest, True) not in found:
            return decision
        aborted = _load(self._place, _name(newest, is_end=True))["aborted"]
        return replace(decision, aborted=frozenset(aborted))

    def record(self, decision: Decision) -> None:
        """Record a decision durably. Raises DecisionTaken, OSError."""
        content = {
            "format": FORMAT,
            "tasks": decision.task_count,
            "written": [_to_json(one) for one in decision.written],
        }
        self._place.write_new(_name(_key(decision)), json.dumps(content).encode())

    def end(self, decision: Decision, aborted: Iterable[int]) -> Decision:
        """Record that all of its transactions have ended; forget older batches. Raises OSError.

        Where a commit that Spark has given up still runs, it may have done so before: then what it
        has found counts, which is the same.
        """
        partitions = sorted(aborted)
        name = _name(_key(decision), is_end=True)
        try:
            content = json.dumps({"format": FORMAT, "aborted": partitions})
            self._place.write_new(name, content.encode())
        except DecisionTaken:
            partitions = _load(self._place, name)["aborted"]
        for key, is_end in _parsed(self._place.names()):
            if key[0] <= decision.batch - BATCHES_KEPT:
                self._place.remove(_name(key, is_end=is_end))
        return replace(decision, aborted=frozenset(partitions))


def _key(decision: Decision) -> tuple[int, int]:
    return decision.batch, decision.round


def _name(key: tuple[int, int], *, is_end: bool = False) -> str:
    return f"{key[0]:020d}-{key[1]:03d}{'.ended' if is_end else ''}.json"


def _parsed(names: Sequence[str]) -> set[tuple[tuple[int, int], bool]]:
    """Return batch and round of each file, and whether it says how the decision ended."""
    matches = filter(None, map(_NAME.match, names))
    return {((int(match[1]), int(match[2])), match[3] is not None) for match in matches}


def _read(place: Place, name: str) -> Decision:
    content = _load(place, name)
    match = _NAME.match(name)
    assert match is not None, name
    try:
        written = tuple(_from_json(one) for one in content["written"])
        tasks = int(content["tasks"])
    except (KeyError, TypeError, ValueError) as error:
        raise DecisionUnreadable(name, repr(error)) from error
    return Decision(batch=int(match[1]), round=int(match[2]), task_count=tasks, written=written)


def _load(place: Place, name: str) -> dict[str, Any]:
    try:
        content = json.loads(place.read(name))
    except ValueError as error:
        raise DecisionUnreadable(name, str(error)) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DecisionUnreadable(name, f"it is not of format {FORMAT}")
    return content


def _to_json(one: Written) -> dict[str, Any]:
    return {
        "partition": one.partition,
        "transaction": one.transaction,
        "records": one.records,
        "digest": one.digest,
        "witness": one.witness,
    }


def _from_json(content: dict[str, Any]) -> Written:
    transaction, witness = content["transaction"], content["witness"]
    return Written(
        content["partition"],
        None if transaction is None else OpenTransaction(*transaction),
        records=content["records"],
        digest=content["digest"],
        witness=None if witness is None else Witness(*witness),
    )
