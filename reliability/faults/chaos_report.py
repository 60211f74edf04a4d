"""The report of a chaos run: a page for people and the same as JSON, both after every round.

Per round: what was sent, acknowledged, delivered, lost, doubled, reordered; the spans in which a
partition served nobody; recovery from every fault by client; and the latency over time with the
faults behind it. The page is one file that needs nothing from elsewhere.
"""

import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.results import percentile, shown
from reliability.faults.chaos import Outcome, Struck
from reliability.faults.chaos_recovery import Outage
from simulator.history import Anomaly

WIDTH, HEIGHT = 1100, 170
LEAST_MS, MOST_MS = 1.0, 60_000.0
COLOURS = {"librdkafka": "#1f5fa8", "kafka-python": "#b8660b", "aiokafka": "#2a7d3f"}
_STYLE = """body{font:14px sans-serif;margin:2em auto;max-width:1180px;padding:0 1em}
table{border-collapse:collapse;margin:6px 0 18px}td,th{border:1px solid #bbb;padding:2px 7px;
text-align:right}td.t,th.t{text-align:left}.bad{background:#fbb}svg{border:1px solid #ccc;display:
block;margin:6px 0}pre{background:#fee;padding:8px;white-space:pre-wrap}text{font:10px sans-serif}
"""
_LEGEND = (
    "Slowest acknowledgement of every quarter of a second, by when the record was sent; the scale "
    "is logarithmic. Red: a fault; orange: mended, not yet whole; grey at the bottom: spans of "
    "half a second and more in which a partition acknowledged nothing to anybody. Hover over a "
    "fault for what it was."
)
Row = Mapping[str, object]


def judged(outcome: Outcome) -> dict[str, object]:
    """Return the figures of a round."""
    report = outcome.report
    assert report is not None, "the round did not come to its end"
    counted = report.lost + report.doubled + report.disordered
    changed = report.count(Anomaly.INCONSISTENT_OFFSETS, Anomaly.VANISHED)
    stale = report.count(Anomaly.STALE_READ)
    return {
        "layout": outcome.layout.value + (", TLS and SCRAM" if outcome.is_secure else ""),
        "seed": outcome.seed,
        "faults": len(outcome.faults),
        "without effect": len(outcome.without_effect),
        "sent": report.sent,
        "acknowledged": report.acked,
        "delivered": report.read,
        "lost": report.lost,
        "double": report.doubled,
        "out of order": report.disordered,
        "changed or vanished": changed,
        "stale reads": stale,
        "other": len(report.findings) - counted - changed - stale,
        "records/s": round(report.acked / outcome.seconds) if outcome.seconds else 0,
        "unavailable s": round(sum(outage.seconds for outage in outcome.outages), 1),
        "equal MB": round(outcome.compared_bytes / 1e6, 1),
        "machine stalled s": round(sum(outcome.stalls), 1),
        "seconds": round(outcome.seconds, 1),
        "verdict": "broken" if outcome.problems else "ok",
    }


def as_document(outcome: Outcome) -> dict[str, object]:
    """Return everything about a round, ready for JSON; seconds count from its begin."""

    def at(moment_ns: int) -> float:
        return round((moment_ns - outcome.zero_ns) / 1e9, 3)

    return {
        **judged(outcome),
        "acknowledged by client": outcome.acked_by,
        "latency ms": outcome.quantiles_ms,
        "fault list": [
            {
                "scenario": fault.scenario.name,
                "row": fault.scenario.row,
                "promise": fault.scenario.promise.text,
                "what": fault.victims,
                "begun s": at(fault.begun_ns),
                "mended s": at(fault.healed_ns),
                "whole s": at(fault.whole_ns),
                "recovery s": fault.recovery,
            }
            for fault in outcome.faults
        ],
        "unavailable spans": [outage._asdict() for outage in outcome.outages],
        "latency over time (s, ms)": outcome.latencies,
        "no effect, not counted": outcome.without_effect,
        "ended by themselves": outcome.ended,
        "given up by clients": outcome.gave_up,
        "problems": outcome.problems,
    }


def by_scenario(faults: Iterable[tuple[str, str, str, Mapping[str, float]]]) -> list[Row]:
    """Return a row for each kind: how often, and the quantiles of its recovery.

    `faults`: (published row, scenario, promise, seconds by client).
    """
    grouped: dict[tuple[str, str, str], list[Mapping[str, float]]] = {}
    for row, name, promise, recovery in faults:
        grouped.setdefault((row, name, promise), []).append(recovery)
    rows: list[Row] = []
    for (row, name, promise), found in sorted(grouped.items(), key=_in_order):
        every = sorted(value for one in found for value in one.values())
        per_client = {
            f"{client} p50": round(percentile(sorted(one[client] for one in found), 0.5), 3)
            for client in found[0]
        }
        rows.append(
            {
                "row": row,
                "scenario": name,
                "writes": promise,
                "faults": len(found),
                "recovery s, p50": round(percentile(every, 0.5), 3),
                "p99": round(percentile(every, 0.99), 3),
                "max": round(every[-1], 3) if every else 0.0,
                **per_client,
            }
        )
    return rows


def _in_order(item: tuple[tuple[str, str, str], object]) -> tuple[int, str]:
    """Published rows first, in their order."""
    row, name, _ = item[0]
    number = row.removeprefix("C-").partition("+")[0]
    return (int(number) if number.isdigit() else 99, name)


def faults_of(outcomes: Iterable[Outcome]) -> list[tuple[str, str, str, Mapping[str, float]]]:
    """Return what `by_scenario` wants of rounds."""
    return [
        (fault.scenario.row, fault.scenario.name, fault.scenario.promise.text, fault.recovery)
        for outcome in outcomes
        for fault in outcome.faults
    ]


def write_report(target: Path, outcomes: Sequence[Outcome], *, head: Row, goal: str) -> None:
    """Write report.html and report.json; a round that did not end is not in them."""
    target.mkdir(parents=True, exist_ok=True)
    kinds = by_scenario(faults_of(outcomes))
    document = {
        **head,
        "goal": goal,
        "scenarios": kinds,
        "rounds": [as_document(outcome) for outcome in outcomes],
    }
    text = json.dumps(document, indent=1) + "\n"
    (target / "report.json").write_text(text, encoding="utf-8")
    page = _page(outcomes, kinds, head=head, goal=goal)
    (target / "report.html").write_text(page, encoding="utf-8")


def _page(outcomes: Sequence[Outcome], kinds: Sequence[Row], *, head: Row, goal: str) -> str:
    parts = [
        "<!doctype html><meta charset='utf-8'><title>Penstock under chaos</title>",
        f"<style>{_STYLE}</style><h1>Penstock under chaos</h1>",
        "<p>" + html.escape("; ".join(f"{name}: {value}" for name, value in head.items())) + "</p>",
        f"<p>Goal: {html.escape(goal)}.</p>",
        "<h2>Rounds</h2>",
        _table([judged(outcome) for outcome in outcomes]),
        "<h2>Recovery by scenario</h2><p>Longest silence of a client of any partition, seconds: "
        "from the fault on, or from its mending on where writes come back after it.</p>",
        _table(kinds),
    ]
    for outcome in outcomes:
        parts += _round(outcome)
    return "\n".join(parts) + "\n"


def _round(outcome: Outcome) -> list[str]:
    title = f"{outcome.layout.value}, seed {outcome.seed}"
    parts = [f"<h2>{html.escape(title)}</h2>", _chart(outcome), f"<p>{_LEGEND}</p>"]
    if outcome.problems:
        parts.append(f"<pre>{html.escape(chr(10).join(outcome.problems)[:10_000])}</pre>")
    for name, lines in (
        ("Without effect, not counted", outcome.without_effect),
        ("Ended by themselves, as they may", outcome.ended),
        ("Records that clients gave up", outcome.gave_up),
    ):
        if lines:
            parts.append(f"<p>{name}: {html.escape('; '.join(lines))}</p>")
    rows = [_fault_row(fault, outcome.zero_ns) for fault in outcome.faults]
    return [*parts, "<details><summary>Every fault</summary>", _table(rows), "</details>"]


def _fault_row(fault: Struck, zero_ns: int) -> Row:
    return {
        "at s": (fault.begun_ns - zero_ns) / 1e9,
        "row": fault.scenario.row,
        "scenario": fault.scenario.name,
        "what": fault.victims,
        "lasted s": (fault.healed_ns - fault.begun_ns) / 1e9,
        "whole after s": (fault.whole_ns - fault.healed_ns) / 1e9,
        **{f"{client} s": seconds for client, seconds in fault.recovery.items()},
    }


def _table(rows: Sequence[Row]) -> str:
    names = list(rows[0]) if rows else []
    lines = ["<table><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in names) + "</tr>"]
    for row in rows:
        mark = " class='bad'" if row.get("verdict") == "broken" else ""
        cells = "".join(
            f"<td{' class=t' if isinstance(value, str) else ''}>{html.escape(shown(value))}</td>"
            for value in row.values()
        )
        lines.append(f"<tr{mark}>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _chart(outcome: Outcome) -> str:
    """Return the latency over time as a drawing."""
    scale = WIDTH / max(outcome.seconds, 1.0)

    def x(seconds: float) -> str:
        return f"{max(0.0, min(seconds * scale, WIDTH)):.1f}"

    def y(milliseconds: float) -> str:
        share = math.log(max(milliseconds, LEAST_MS) / LEAST_MS) / math.log(MOST_MS / LEAST_MS)
        return f"{HEIGHT - min(1.0, share) * HEIGHT:.1f}"

    parts = [f"<svg width='{WIDTH}' height='{HEIGHT + 16}'>"]
    for fault in outcome.faults:
        begun, healed, whole = (
            (moment - outcome.zero_ns) / 1e9
            for moment in (fault.begun_ns, fault.healed_ns, fault.whole_ns)
        )
        title = html.escape(f"{fault.scenario.row} {fault.scenario.name}: {fault.victims}")
        parts += [
            f"<g><title>{title}</title>",
            _box(x(begun), (healed - begun) * scale, "#f9caca"),
            _box(x(healed), (whole - healed) * scale, "#fdebc8"),
            "</g>",
        ]
    for mark in (10, 100, 1000, 10_000):
        parts.append(
            f"<line x1='0' x2='{WIDTH}' y1='{y(mark)}' y2='{y(mark)}' stroke='#ddd'/>"
            f"<text x='2' y='{y(mark)}'>{mark} ms</text>"
        )
    for client, points in outcome.latencies.items():
        line = " ".join(f"{x(at)},{y(worst)}" for at, worst in points)
        colour = COLOURS.get(client, "#555")
        parts.append(
            f"<polyline points='{line}' fill='none' stroke='{colour}'><title>{client}</title>"
            "</polyline>"
        )
    parts += _outages(outcome.outages, scale)
    legend = "".join(
        f"<text x='{60 + place * 110}' y='12' fill='{colour}'>{client}</text>"
        for place, (client, colour) in enumerate(COLOURS.items())
    )
    return "".join([*parts, legend, "</svg>"])


def _outages(outages: Sequence[Outage], scale: float) -> list[str]:
    return [
        f"<rect x='{outage.from_s * scale:.1f}' y='{HEIGHT + 1 + outage.partition * 5}' height='4' "
        f"width='{max(1.0, outage.seconds * scale):.1f}' fill='#777'>"
        f"<title>partition {outage.partition}: {outage.seconds} s</title></rect>"
        for outage in outages
    ]


def _box(left: str, width: float, colour: str) -> str:
    width = max(1.0, width)
    return f"<rect x='{left}' y='0' height='{HEIGHT}' width='{width:.1f}' fill='{colour}'/>"
