"""The rows themselves, the file they are kept in, and how they are shown."""

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.peer_plots import AXES, curves_of
from benchmarks.peer_plots import main as plot
from benchmarks.peers import cold
from benchmarks.peers.__main__ import main
from benchmarks.peers.failover import longest_silence
from benchmarks.peers.model import Scale, Spec
from benchmarks.peers.ratios import Row
from benchmarks.peers.report import line_of, markdown
from benchmarks.peers.rows import all_groups
from benchmarks.peers.store import Store, last_file

QUESTIONS = [question for group in all_groups() for question in group.questions]


def _row(name: str = "produce-16k", **others: object) -> Row:
    row: Row = {
        "name": name,
        "unit": "MB/s",
        "better": "more",
        "ours_is": "penstock",
        "peer_is": "kafka",
        "ours": 200.0,
        "peer": 100.0,
        "ratio": 2.0,
        "spread": [1.5, 2.5],
        "target": 1.5,
        "limit": None,
        "met": True,
        "curve": "",
        "at": 0.0,
        "measured_at": "2026-01-02T10:00:00+00:00",
    }
    return row | others


def test_no_two_rows_are_kept_by_the_same_name_and_peer() -> None:
    counts = Counter(key for question in QUESTIONS for key in question.row_keys())
    assert [key for key, count in counts.items() if count > 1] == []


def test_both_sides_of_a_row_have_as_many_nodes() -> None:
    assert all(peer.nodes == one.ours.nodes for one in QUESTIONS for peer in one.peers)


def test_a_peer_is_compared_at_equal_durability_unless_its_target_says_otherwise() -> None:
    unequal = {
        (one.name, peer.label)
        for one in QUESTIONS
        for peer in one.peers
        if peer.durable_in != one.ours.durable_in
    }
    rows = {"three-fsync-produce-16k", "three-fsync-produce-256k"}
    assert unequal == {(name, "kafka, 3 nodes, page cache") for name in rows}


def test_every_curve_has_an_axis_and_more_than_one_place_on_it() -> None:
    places = Counter(one.curve for one in QUESTIONS if one.curve)
    assert set(places) == set(AXES)
    assert all(count > 1 for count in places.values())


def test_counts_that_rows_name_are_fields_of_the_scale() -> None:
    assert {"thousand", "ten_thousand"} <= set(Scale.__dataclass_fields__)


def test_rows_are_kept_over_runs_and_replaced_by_their_key(tmp_path: Path) -> None:
    file = tmp_path / "peers-2026-01-02.json"
    Store(file).add([_row(), _row("consume-hot")], {"kafka": {"a": "b"}})
    again = Store(file)
    assert again.has([("produce-16k", "kafka"), ("consume-hot", "kafka")])
    assert not again.has([("produce-16k", "rocketmq")])
    again.add([_row(ratio=3.0)], {})
    document = json.loads(file.read_text())
    assert [row["ratio"] for row in document["rows"]] == [3.0, 2.0]
    assert document["settings"] == {"kafka": {"a": "b"}}
    assert document["machine"]["cores"]


def test_a_row_without_a_value_of_ours_is_not_there_and_one_without_a_peer_s_is(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "peers-2026-01-02.json")
    left_out = {"ratio": None, "peer": None, "reason": "there is no tier to read from yet"}
    store.add([_row("tier", ours=None, **left_out), _row("codec", **left_out)], {})
    assert not store.has([("tier", "kafka")])
    assert store.has([("codec", "kafka")])
    assert not store.has([("codec", "kafka"), ("tier", "kafka")])


def test_a_new_day_begins_with_the_rows_of_the_last(tmp_path: Path) -> None:
    before, file = tmp_path / "peers-2026-01-02.json", tmp_path / "peers-2026-01-03.json"
    Store(before).add([_row(), _row("consume-hot")], {"kafka": {"a": "b"}})
    Store(file, before).add([_row(ratio=3.0)], {})
    again = Store(file, before)
    assert [row["ratio"] for row in again.rows.values()] == [3.0, 2.0]
    assert all(row["commit"] and row["measured_at"] for row in again.rows.values())
    assert again.settings == {"kafka": {"a": "b"}}


def test_the_last_results_are_those_of_the_latest_date(tmp_path: Path) -> None:
    assert last_file(tmp_path) is None
    for name in ("peers-2026-02-01.json", "peers-2025-12-31.json", "peers.json"):
        (tmp_path / name).write_text("{}")
    assert last_file(tmp_path) == tmp_path / "peers-2026-02-01.json"


def test_a_row_that_did_not_run_shows_why_beside_its_peer() -> None:
    failed = _row(ratio=None, peer=None, spread=None, met=None, reason="java is not installed")
    assert line_of(failed)["peer is"] == "kafka: java is not installed"
    assert line_of(_row())["target"] == ">= 1.5 x"
    assert line_of(_row(better="less", limit=1.1))["target"] == ">= 1.5 x, ours <= 1.1"


def test_the_page_lists_machine_settings_and_rows(tmp_path: Path) -> None:
    file = tmp_path / "peers-2026-01-02.json"
    Store(file).add([_row("consume-hot"), _row()], {"kafka": {"acks": "all"}})
    page = markdown(json.loads(file.read_text()))
    assert "| kafka | acks | all |" in page
    assert "| produce-16k | MB/s | 200 | 100 | kafka | 2.00 | 1.50 to 2.50 |" in page
    assert page.index("| produce-16k |") < page.index("| consume-hot |")
    assert "cores" in page


def test_a_curve_holds_our_points_once_and_leaves_out_what_did_not_run() -> None:
    name = "throughput against partitions"
    rows = [
        _row(curve=name, at=10.0),
        _row(curve=name, at=1.0, ours=250.0),
        _row(curve=name, at=10.0, peer_is="rocketmq", peer=None),
        _row("other"),
    ]
    (curve,) = curves_of(rows)
    assert curve.lines() == {
        "kafka": [(1.0, 100.0), (10.0, 100.0)],
        "penstock": [(1.0, 250.0), (10.0, 200.0)],
    }


def test_numbers_are_written_beside_the_plots(tmp_path: Path) -> None:
    file = tmp_path / "peers-2026-01-02.json"
    Store(file).add([_row(curve="memory against connections", at=5000.0)], {})
    assert plot(["--results", str(file), "--to", str(tmp_path / "plots")]) == 0
    text = (tmp_path / "plots" / "memory-against-connections.csv").read_text()
    assert text == "server,idle connections,MB/s\nkafka,5000,100\npenstock,5000,200\n"


def test_a_row_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--rows", "produce-16q"])
    assert "no row is called produce-16q" in capsys.readouterr().err


def test_the_silence_of_a_failover_is_the_longest_one_after_it_began() -> None:
    acked_at = [0.0, 5.0, 5.1, 7.1, 7.2]
    assert longest_silence(acked_at, since=4.9) == pytest.approx(2.0)
    assert longest_silence([], since=0.0) == 0.0


def test_a_server_is_called_by_product_nodes_and_durability() -> None:
    assert Spec(product="kafka", nodes=3).label == "kafka, 3 nodes, page cache"


def test_files_that_are_deleted_while_they_are_put_out_of_the_page_cache_are_passed_over(
    tmp_path: Path,
) -> None:
    (tmp_path / "topic").mkdir()
    (tmp_path / "topic" / "gone").symlink_to("nowhere")
    kept = tmp_path / "topic" / "kept"
    kept.write_bytes(b"x" * 10_000)
    cold.forget([tmp_path])
    assert kept.read_bytes() == b"x" * 10_000
