"""The report of a chaos run: one row per kind of fault, and a page with the latency over time.

Figures of a kind: faults, records, what the history judge found, and how long clients waited:
from the last answer before the fault to the first one after it, for writers and readers.
"""

import html
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.chaos import ChaosRun
from benchmarks.harness.results import percentile, shown
from penstock.sim.history import Anomaly

WIDTH, HEIGHT = 1000, 120
BIN_NS = 100_000_000
TOP_MS = 5000.0

_STYLE = """body{font:14px sans-serif;margin:2em;max-width:1100px}table{border-collapse:collapse}
td,th{border:1px solid #bbb;padding:3px 7px;text-align:right}.bad{background:#fbb}
svg{border:1px solid #ccc;display:block;margin:4px 0 18px}pre{background:#eee;padding:8px}"""


def as_row(run: ChaosRun) -> dict[str, object]:
    """Return the figures of one kind of fault."""
    report = run.report
    assert report is not None, "the run did not come to its end"
    counted = report.lost + report.doubled + report.disordered
    changed = report.count(Anomaly.INCONSISTENT_OFFSETS, Anomaly.VANISHED)
    stale = report.count(Anomaly.STALE_READ)
    return {
        "fault": run.kind.name,
        "faults": len(run.spans),
        "acknowledged": report.acked,
        "lost": report.lost,
        "double": report.doubled,
        "out of order": report.disordered,
        "changed or vanished": changed,
        "stale reads": stale,
        "other": len(report.findings) - counted - changed - stale,
        **_quantiles("write gap s", run.write_gaps),
        **_quantiles("read gap s", run.read_gaps),
        "verdict": "ok" if not run.problems else "broken",
    }


def _quantiles(name: str, gaps: Sequence[float]) -> dict[str, float]:
    ordered = sorted(gaps) or [0.0]
    return {
        f"{name}, p50": round(percentile(ordered, 0.50), 3),
        f"{name}, p99": round(percentile(ordered, 0.99), 3),
        f"{name}, max": round(ordered[-1], 3),
    }


def write_page(path: Path, runs: Sequence[ChaosRun], *, heading: str) -> None:
    """Write the page; it needs nothing from elsewhere."""
    rows = [as_row(run) for run in runs]
    parts = [
        "<!doctype html><meta charset='utf-8'><title>Penstock under chaos</title>",
        f"<style>{_STYLE}</style><h1>Penstock under chaos</h1><p>{html.escape(heading)}</p>",
        _table(rows),
        "<p>Gap: the longest silence of one client of one partition around a fault. Kinds with a "
        "majority of brokers and of controllers are counted from the moment they were mended.</p>",
    ]
    for run in runs:
        parts += [f"<h2>{html.escape(run.kind.name)}</h2>", _chart(run)]
        if run.problems:
            parts.append(f"<pre>{html.escape(chr(10).join(run.problems)[:8000])}</pre>")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _table(rows: Sequence[dict[str, object]]) -> str:
    names = list(rows[0]) if rows else []
    lines = ["<table><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in names) + "</tr>"]
    for row in rows:
        mark = "" if row["verdict"] == "ok" else " class='bad'"
        cells = "".join(f"<td>{html.escape(shown(value))}</td>" for value in row.values())
        lines.append(f"<tr{mark}>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _chart(run: ChaosRun) -> str:
    """Return the slowest acknowledgement of every 100 ms, with the faults behind it."""
    if not run.latencies:
        return "<p>nothing was acknowledged</p>"
    begun, ended = run.latencies[0][0], run.latencies[-1][0]
    slowest: dict[int, float] = {}
    for at_ns, latency_ns in run.latencies:
        place = (at_ns - begun) // BIN_NS
        slowest[place] = max(slowest.get(place, 0.0), latency_ns / 1e6)
    scale = WIDTH / max(1, ended - begun)
    spans = "".join(
        f"<rect x='{(span.begun_ns - begun) * scale:.1f}' y='0' height='{HEIGHT}' "
        f"width='{max(1.0, (span.mended_ns - span.begun_ns) * scale):.1f}' fill='#fdd'/>"
        for span in run.spans
    )
    bars = "".join(
        f"<rect x='{place * BIN_NS * scale:.1f}' y='{HEIGHT - height:.1f}' "
        f"width='{max(0.6, BIN_NS * scale):.1f}' height='{height:.1f}' fill='#357'/>"
        for place, worst in sorted(slowest.items())
        for height in (max(0.5, min(1.0, worst / TOP_MS) * HEIGHT),)
    )
    caption = f"slowest acknowledgement of each 100 ms, {TOP_MS / 1000:g} s high; red: the faults"
    return f"<svg width='{WIDTH}' height='{HEIGHT}'>{spans}{bars}</svg><p>{caption}</p>"
