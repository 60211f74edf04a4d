"""From what the rounds showed to the rows of the result file. Pure: nothing is measured here.

The ratio of a row is the median of the ratios of its rounds, each of one round's two values, so
that a slow quarter of an hour hits both sides. Above 1 we are ahead, also where less is better.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.peers.model import Answer, Figure, Question, Spec
from harness.results import median

Row = dict[str, object]


@dataclass(slots=True, kw_only=True)
class Samples:
    """What a question's rounds showed, by server; a server that could not answer has a reason."""

    answers: dict[Spec, dict[int, Answer]] = field(default_factory=dict)
    """By server, then by round."""
    reasons: dict[Spec, str] = field(default_factory=dict)
    load: float = 0.0
    """The machine's highest load average before a server was started: what else was going on."""

    def add(self, spec: Spec, turn: int, answer: Answer) -> None:
        """Keep the answer of one turn."""
        self.answers.setdefault(spec, {})[turn] = answer


def ratio_of(ours: float, peer: float, *, is_more_better: bool) -> float | None:
    """Return how far we are ahead, None where there is nothing to divide by."""
    above, below = (ours, peer) if is_more_better else (peer, ours)
    return above / below if below > 0 else None


def rows_of(question: Question, samples: Samples) -> list[Row]:
    """Return one row for each figure and peer."""
    return [
        _row(question, figure, peer, samples)
        for figure in question.figures
        for peer in question.peers
    ]


def _row(question: Question, figure: Figure, peer: Spec, samples: Samples) -> Row:
    reason = samples.reasons.get(question.ours) or samples.reasons.get(peer)
    mine, theirs = samples.answers.get(question.ours, {}), samples.answers.get(peer, {})
    turns = [
        turn
        for turn in sorted(mine.keys() & theirs.keys())
        if figure.key in mine[turn] and figure.key in theirs[turn]
    ]
    row = _head(question, figure, peer)
    if not turns:
        row["ours"] = _middle(figure, mine)
        row["peer"] = _middle(figure, theirs)
        row["reason"] = reason or f"{peer.product} does not show {figure.key}"
        return row
    ours = [mine[turn][figure.key] for turn in turns]
    other = [theirs[turn][figure.key] for turn in turns]
    better = figure.is_more_better
    found = [ratio_of(a, b, is_more_better=better) for a, b in zip(ours, other, strict=True)]
    ratios = [one for one in found if one is not None]
    row |= {"ours": median(ours), "peer": median(other)}
    row["ratio"] = median(ratios) if ratios else None
    row["spread"] = [min(ratios), max(ratios)] if ratios else None
    row["samples"] = {"ours": ours, "peer": other}
    row |= {"rounds": len(turns), "load": samples.load}
    row["met"] = is_met(row)
    if reason:
        row["reason"] = f"not in all rounds: {reason}"
    return row


def _head(question: Question, figure: Figure, peer: Spec) -> Row:
    return {
        "name": question.row_name(figure),
        "unit": figure.unit,
        "better": "more" if figure.is_more_better else "less",
        "ours_is": question.ours.label,
        "peer_is": peer.label,
        "ours": None,
        "peer": None,
        "ratio": None,
        "spread": None,
        "target": figure.target_against(peer, question.ours),
        "limit": figure.limit,
        "met": None,
        "curve": question.curve if figure is question.figures[0] else "",
        "at": question.at,
        "note": question.note,
    }


def _middle(figure: Figure, answers: Mapping[int, Answer]) -> float | None:
    values = [answer[figure.key] for answer in answers.values() if figure.key in answer]
    return median(values) if values else None


def is_met(row: Row) -> bool | None:
    """Whether a row reaches the targets it has; None when it has none or no value."""
    ratio, ours = row.get("ratio"), row.get("ours")
    verdicts: list[bool] = []
    if isinstance(row.get("target"), int | float) and isinstance(ratio, int | float):
        verdicts.append(ratio >= float(str(row["target"])))
    if isinstance(row.get("limit"), int | float) and isinstance(ours, int | float):
        limit = float(str(row["limit"]))
        verdicts.append(ours >= limit if row.get("better") == "more" else ours <= limit)
    return all(verdicts) if verdicts else None


GROWTH = ("failover-growth", "failover-10", "failover-10000", 1.2)
"""Name of the row, what it grows from, what it grows to, and how much it may."""


def growth_rows(rows: Sequence[Row]) -> list[Row]:
    """Return how much longer a failover takes with many partitions, for each peer that ran both."""
    name, few_name, many_name, limit = GROWTH
    few = {row["peer_is"]: row for row in rows if row["name"] == few_name}
    found: list[Row] = []
    for many in (row for row in rows if row["name"] == many_name):
        base = few.get(many["peer_is"])
        if base is None or base["ours"] is None or many["ours"] is None:
            continue
        ours = _times(many["ours"], base["ours"])
        peer = _times(many["peer"], base["peer"])
        ratio = ratio_of(ours, peer, is_more_better=False) if ours and peer else None
        row = {**many, "name": name, "unit": f"x {few_name}", "ours": ours, "peer": peer}
        row |= {"ratio": ratio, "spread": None, "limit": limit, "target": None, "samples": None}
        row["met"] = is_met(row)
        found.append(row)
    return found


def _times(many: object, few: object) -> float | None:
    if isinstance(many, int | float) and isinstance(few, int | float) and few > 0:
        return many / few
    return None


T = TypeVar("T")


def rotated(ones: Sequence[T], turn: int) -> list[T]:
    """Return them in the order of this round: another one goes first each time."""
    at = turn % len(ones) if ones else 0
    return [*ones[at:], *ones[:at]]
