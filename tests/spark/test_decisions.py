"""Decisions of a stream in its checkpoint: found where Spark has it, whole, once."""

import json
from pathlib import Path

import pytest
from pyarrow import fs

from penstock.client.produce import OpenTransaction
from penstock.spark.errors import CheckpointUnusable, DecisionTaken, DecisionUnreadable
from penstock.spark.exactly_once.checkpoint import LocalPlace, Place, RemotePlace, open_checkpoint
from penstock.spark.exactly_once.decisions import Decision, Decisions
from penstock.spark.exactly_once.written import Digest, Witness, Written


@pytest.fixture(params=["local", "pyarrow"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return LocalPlace(tmp_path / "penstock")
    return RemotePlace(fs.LocalFileSystem(), str(tmp_path / "penstock"))


def _decision(batch: int, round_: int = 1) -> Decision:
    transaction = OpenTransaction(f"id-{batch}", 7, 3)
    rows = Written(0, transaction, records=2, digest=1 << 63, witness=Witness("t", 1, 5))
    return Decision(batch=batch, round=round_, task_count=2, written=(rows, Written(1, None)))


def test_a_decision_is_read_as_it_was_recorded(place: Place) -> None:
    decisions = Decisions(place)
    assert decisions.last() is None
    decisions.record(_decision(9))
    decisions.record(_decision(10))
    assert decisions.last() == _decision(10)
    ended = decisions.end(_decision(10), [1, 0])
    assert ended.aborted == frozenset({0, 1})
    assert decisions.last() == ended
    decisions.record(_decision(10, 2))
    assert decisions.last() == _decision(10, 2)


def test_none_is_recorded_twice(place: Place) -> None:
    decisions = Decisions(place)
    decisions.record(_decision(0))
    with pytest.raises(DecisionTaken, match="another driver"):
        decisions.record(_decision(0))


def test_of_two_that_end_a_decision_the_first_one_counts(place: Place) -> None:
    decisions = Decisions(place)
    decisions.record(_decision(0))
    assert decisions.end(_decision(0), [1]) == decisions.end(_decision(0), [])
    last = decisions.last()
    assert last is not None
    assert last.aborted == frozenset({1})


def test_old_ones_go_and_drafts_of_killed_drivers_do_not_count(
    place: Place, tmp_path: Path
) -> None:
    decisions = Decisions(place)
    for batch in range(5):
        decisions.record(_decision(batch))
        decisions.end(_decision(batch), ())
    (tmp_path / "penstock" / f".{6:020d}-001.json.77").write_text("{")
    names = [name for name in place.names() if not name.startswith(".")]
    assert sorted({int(name[:20]) for name in names}) == [3, 4]
    last = decisions.last()
    assert last is not None
    assert (last.batch, last.is_whole) == (4, True)


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 2}', '{"format": 1}'])
def test_a_damaged_decision_is_named(place: Place, content: str) -> None:
    place.write_new(f"{3:020d}-001.json", content.encode())
    with pytest.raises(DecisionUnreadable, match=r"00003-001.json .* can not be read"):
        Decisions(place).last()


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_the_query_id_is_that_of_sparks_checkpoint(tmp_path: Path, prefix: str) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "abc"}))
    query_id, place = open_checkpoint(f"{prefix}{tmp_path}")
    assert query_id == "abc"
    Decisions(place).record(_decision(0))
    assert len(list((tmp_path / "penstock").iterdir())) == 1


def test_a_checkpoint_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnusable, match="give it with its scheme"):
        open_checkpoint(str(tmp_path / "nowhere"))
    with pytest.raises(CheckpointUnusable, match="metadata is not found"):
        open_checkpoint("nosuchscheme://host/directory")
    (tmp_path / "metadata").write_text("{}")
    with pytest.raises(CheckpointUnusable, match="no id of a query"):
        open_checkpoint(str(tmp_path))


def test_a_digest_is_equal_for_equal_rows_in_any_order_alone() -> None:
    def digest(*rows: tuple[str, bytes | None, bytes | None]) -> int:
        made = Digest()
        for row in rows:
            made.add(*row)
        return made.value

    one, other = ("t", b"k", b"v"), ("t", None, b"w")
    assert digest(one, other) == digest(other, one)
    different = [
        digest(*rows)
        for rows in (
            [one],
            [one, one],
            [("t", b"", b"kv")],
            [("t", b"kv", b"")],
            [("t", b"kv", None)],
            [("t", None, b"kv")],
            [("u", b"k", b"v")],
        )
    ]
    assert len(set(different)) == len(different)
