"""Damage in a Raft member's files and in identity.json: found, or they say the same.

A member that starts on damaged files must know everything that it had made durable: its term, its
vote, its entries, its snapshot. Or it must not start. Nothing in between: a forgotten vote is a
second vote.
"""

from pathlib import Path
from random import Random
from struct import unpack_from
from typing import NamedTuple

from harness.first_start import first_start
from penstock.base.errors import ConfigError
from penstock.base.ids import PeerId
from penstock.controller.errors import CorruptMetadata, UnsupportedMetadata
from penstock.node.identity import open_data_directories
from penstock.raft.configuration import Configuration
from penstock.raft.entry import Entry
from penstock.raft.ids import RaftIndex, Term
from penstock.raft.ready import HardState, Snapshot
from penstock.runtime.io.disk import FileDisk
from penstock.runtime.raft.log_file import HEADER_BYTES
from penstock.runtime.raft.storage import RaftStorage
from reliability.damage.byte_classes import Classes, Place
from reliability.damage.damage import draw
from reliability.damage.rounds import Tally, Verdict

MEMBERS = Configuration.of({PeerId(1): "one:9093", PeerId(2): "two:9093", PeerId(3): "three:9093"})
REFUSED, SAME = "refused, nothing changed", "says the same"


class Known(NamedTuple):
    """What a member has made durable. How far the log is agreed is not among it: others say so."""

    term: int
    voted_for: int
    snapshot: Snapshot
    entries: list[Entry]


def damage_raft(rng: Random, root: Path, count: int, tally: Tally) -> None:
    """Damage a member's files `count` times, each time whole ones."""
    disk = FileDisk(root)
    known = _make(disk, rng)
    directory = root / "metadata"
    whole = {path.name: path.read_bytes() for path in directory.iterdir()}
    for _ in range(count):
        one = draw(rng, _raft_classes(directory), set_id=0, broker_id=0)
        before = {path.name: path.read_bytes() for path in directory.iterdir()}
        try:
            found = _open(disk)
            outcome = SAME if found == known else "MISSED"
            if found != known:
                tally.wrong.append(f"{one.name} at {one.at}: the member knows {found}")
        except (CorruptMetadata, UnsupportedMetadata, ConfigError):
            outcome = REFUSED
            if before != {path.name: path.read_bytes() for path in directory.iterdir()}:
                tally.wrong.append(f"{one.name} at {one.at}: refused, and changed all the same")
        tally.verdicts[Verdict(one.name, "stopped", outcome)] += 1
        for path in directory.iterdir():
            path.unlink()
        for name, data in whole.items():
            (directory / name).write_bytes(data)


def _make(disk: FileDisk, rng: Random) -> Known:
    storage = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    state = HardState(term=Term(3), voted_for=PeerId(1), commit_index=RaftIndex(6))
    entries = [_entry(index, rng) for index in range(1, 13)]
    storage.write(state, entries[:7])
    snapshot = Snapshot(
        index=RaftIndex(6), term=Term(3), configuration=MEMBERS, data=rng.randbytes(300)
    )
    storage.compact(snapshot)
    for at in range(7, 12):
        storage.write(state, entries[at : at + 1])
    storage.reserve(4096)
    storage.mark_commit(RaftIndex(11), Term(3))
    last = HardState(term=Term(9), voted_for=PeerId(2), commit_index=RaftIndex(11))
    storage.write(last, [])
    storage.close()
    return Known(9, 2, snapshot, entries[6:])


def _entry(index: int, rng: Random) -> Entry:
    return Entry(index=RaftIndex(index), term=Term(3), payload=rng.randbytes(rng.randrange(1, 200)))


def _open(disk: FileDisk) -> Known:
    storage = RaftStorage(disk, "metadata", own_id=PeerId(1), first=first_start(MEMBERS))
    found = storage.found
    storage.close()
    return Known(found.state.term, found.state.voted_for, found.snapshot, found.entries)


def _raft_classes(directory: Path) -> Classes:
    log = directory / "raft.log"
    data = log.read_bytes()
    found: Classes = {"raft.log: header": [Place(log, 0, HEADER_BYTES)]}
    at = HEADER_BYTES
    while len(data) - at >= 44:
        (length,) = unpack_from(">I", data, at + 4)
        if not length:
            break
        for name, start, size in (
            ("checksum", 0, 4), ("length", 4, 4), ("term", 8, 8), ("vote", 16, 4),
            ("commit index", 20, 8), ("first index and count", 28, 12),
            ("entries", 40, length + 8 - 40),
        ):  # fmt: skip
            if size:
                found.setdefault(f"raft.log: {name}", []).append(Place(log, at + start, size))
        at += 8 + length
    found["raft.log: space set aside"] = [Place(log, at, len(data) - at)]
    found["cut: raft.log"] = [Place(log, 0, at)]
    for name in ("raft.snapshot", "raft.commit", "raft.end"):
        path = directory / name
        found[name] = found[f"cut: {name}"] = [Place(path, 0, path.stat().st_size)]
    return found


def damage_identity(rng: Random, root: Path, count: int, tally: Tally) -> None:
    """Damage identity.json `count` times."""
    for directory in open_data_directories([root], broker_id=4):
        whole = directory.identity
        directory.close()
    path = root / "identity.json"
    data = path.read_bytes()
    for _ in range(count):
        classes = {
            "identity.json": [Place(path, 0, len(data))],
            "cut: identity.json": [Place(path, 0, len(data))],
        }
        one = draw(rng, classes, set_id=0, broker_id=0)
        try:
            (opened,) = open_data_directories([root], broker_id=4)
            opened.close()
            outcome = SAME if opened.identity == whole else "MISSED"
            if opened.identity != whole:
                tally.wrong.append(f"identity.json at {one.at}: taken for {opened.identity}")
        except ConfigError:
            outcome = REFUSED
        tally.verdicts[Verdict(one.name, "stopped", outcome)] += 1
        path.write_bytes(data)
