"""Shows the rows: as a table on the terminal, or as Markdown with the settings for a page."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.peers.rows import all_groups
from harness.results import show, shown

COLUMNS = ("row", "unit", "ours", "peer", "peer is", "ratio", "spread", "target", "met", "measured")

_PLACES = {
    question.name: place
    for place, question in enumerate(one for group in all_groups() for one in group.questions)
}


def line_of(row: Mapping[str, Any]) -> dict[str, object]:
    """Return a row as the table shows it; one that did not run shows why instead."""
    return {
        "row": row["name"],
        "unit": row["unit"],
        "ours": _value(row["ours"]),
        "peer": _value(row["peer"]),
        "peer is": _peer(row),
        "ratio": _value(row["ratio"]),
        "spread": _spread(row),
        "target": _target(row),
        "met": _verdict(row),
        "measured": row["measured_at"][:10],
    }


def print_table(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print the rows."""
    show("peers: a ratio above 1 means that Penstock is ahead", [line_of(row) for row in rows])


def markdown(document: Mapping[str, Any]) -> str:
    """Return a whole result document for a page: machine, method, settings and the table.

    What the clients used is in the file alone: it says nothing of the servers.
    """
    machine = document["machine"]
    rows = [row for row in document["rows"] if not row["name"].endswith(".client_cpu")]
    rows.sort(key=_place)
    lines = [
        f"{document['measured_at'][:16].replace('T', ' ')} UTC, {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_mib']:,} MiB, Linux {machine['kernel']}.",
        f"{document['method']}.",
        "",
        *_settings(document["settings"]),
        "",
        *_table([line_of(row) for row in rows]),
    ]
    return "\n".join(lines) + "\n"


def _place(row: Mapping[str, Any]) -> int:
    """Where a row stands in the order of the questions; rows of one question keep theirs."""
    name = row["name"].partition(".")[0]
    return _PLACES.get(name, len(_PLACES))


def _settings(settings: Mapping[str, Mapping[str, str]]) -> list[str]:
    lines = ["| server | setting | value, and why |", "|---|---|---|"]
    for server, values in settings.items():
        lines += [f"| {server} | {name} | {value} |" for name, value in values.items()]
    return lines


def _table(lines: Sequence[Mapping[str, object]]) -> list[str]:
    head = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    return [*head, *["| " + " | ".join(str(line[one]) for one in COLUMNS) + " |" for line in lines]]


def _value(value: object) -> str:
    return "" if value is None else shown(value)


def _peer(row: Mapping[str, Any]) -> str:
    name = str(row["peer_is"] or "")
    return name if row["ratio"] is not None or not row.get("reason") else f"{name}: {row['reason']}"


def _spread(row: Mapping[str, Any]) -> str:
    found = row["spread"]
    return f"{shown(found[0])} to {shown(found[1])}" if found else ""


def _target(row: Mapping[str, Any]) -> str:
    parts = []
    if row["target"] is not None:
        parts.append(f">= {row['target']:g} x")
    if row["limit"] is not None:
        sign = ">=" if row["better"] == "more" else "<="
        parts.append(f"ours {sign} {row['limit']:,g}")
    return ", ".join(parts)


def _verdict(row: Mapping[str, Any]) -> str:
    return {True: "yes", False: "no", None: ""}[row["met"]]
