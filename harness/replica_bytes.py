"""Are the replicas of every set the same, byte for byte? Read from the files of a quiet cluster."""

import re
from pathlib import Path
from typing import Any

from harness.cluster import ClusterProcess
from harness.waiting import UNTIL_SECONDS, wait_until

QUIET_SECONDS = UNTIL_SECONDS
CHUNK_BYTES = 1 << 20
_SEGMENT = re.compile(r"(\d{20})\.log")


def differences(cluster: ClusterProcess) -> tuple[int, list[str]]:
    """Wait until all members end at the same position, then compare; returns (bytes, problems)."""
    sets: list[dict[str, Any]] = []

    def is_quiet() -> bool:
        nonlocal sets
        sets = cluster.status()["sets"]
        return _is_quiet(sets)

    if not wait_until(is_quiet, QUIET_SECONDS):
        return 0, [f"the members of a set did not reach the same end in {QUIET_SECONDS} s"]
    compared, problems = 0, []
    for replica_set in sets:
        name, end = (
            f"set-{replica_set['replica_set_id']}",
            replica_set["members"][0]["log_end_position"],
        )
        logs = {
            each["broker_id"]: cluster.nodes[each["broker_id"]].data / name / "log"
            for each in replica_set["members"]
        }
        start = max(each["log_start_position"] for each in replica_set["members"])
        same, found = _compare(name, logs, start, end)
        compared += same
        problems += found
    if not compared:
        problems.append("there was nothing to compare")
    return compared, problems


def _is_quiet(sets: list[dict[str, Any]]) -> bool:
    return all(
        len(
            {
                (each["log_end_position"], each["confirm_position"])
                for each in replica_set["members"]
            }
        )
        == 1
        and replica_set["members"][0]["log_end_position"]
        == replica_set["members"][0]["confirm_position"]
        and all(each["reported_ms_ago"] >= 0 for each in replica_set["members"])
        for replica_set in sets
    )


def _compare(name: str, logs: dict[int, Path], start: int, end: int) -> tuple[int, list[str]]:
    """Compare positions [start, end) of one set; every member has to have every segment."""
    bases = {broker_id: _bases(log, start, end) for broker_id, log in logs.items()}
    if len({tuple(found) for found in bases.values()}) != 1:
        return 0, [f"{name}: other segments on every member: {bases}"]
    compared = 0
    for base in next(iter(bases.values())):
        files = {broker_id: log / f"{base:020d}.log" for broker_id, log in logs.items()}
        sizes = {broker_id: file.stat().st_size for broker_id, file in files.items()}
        if len(set(sizes.values())) != 1:
            return compared, [f"{name}: segment {base} has other sizes: {sizes}"]
        length = min(end - base, next(iter(sizes.values())))
        at = _first_difference(list(files.values()), max(0, start - base), length)
        if at is not None:
            return compared, [f"{name}: members {list(files)} differ at position {base + at}"]
        compared += length - max(0, start - base)
    return compared, []


def _bases(log: Path, start: int, end: int) -> list[int]:
    """Return the bases of the segments that hold something of [start, end)."""
    found = sorted(
        int(match[1]) for file in log.iterdir() if (match := _SEGMENT.fullmatch(file.name))
    )
    return [
        base
        for base, following in zip(found, [*found[1:], end + 1], strict=True)
        if base < end and following > start
    ]


def _first_difference(files: list[Path], start: int, end: int) -> int | None:
    opened = [file.open("rb") for file in files]
    try:
        for handle in opened:
            handle.seek(start)
        at = start
        while at < end:
            pieces = [handle.read(min(CHUNK_BYTES, end - at)) for handle in opened]
            if any(piece != pieces[0] for piece in pieces):
                return at + next(
                    number
                    for number, column in enumerate(zip(*pieces, strict=False))
                    if len(set(column)) > 1
                )
            if not pieces[0]:
                return at
            at += len(pieces[0])
        return None
    finally:
        for handle in opened:
            handle.close()
