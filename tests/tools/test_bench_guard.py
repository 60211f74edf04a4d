"""The guard has to find a planted loss, and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.guard import Comparison, broken, compare, main, verdict


def _row(
    ratio: float | None, name: str = "produce-16k", ours: float | None = 1.0
) -> dict[str, Any]:
    return {"name": name, "peer_is": "kafka", "ratio": ratio, "ours": ours, "reason": "why"}


def _file(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text(json.dumps({"rows": list(rows)}))
    return str(path)


@pytest.mark.parametrize(("fresh", "is_lost"), [(1.69, True), (1.71, False), (9.0, False)])
def test_a_loss_of_more_than_fifteen_percent_is_one(fresh: float, is_lost: bool) -> None:
    assert Comparison("row", "kafka", 2.0, fresh).is_lost() is is_lost


def test_only_rows_with_a_ratio_then_and_now_are_compared() -> None:
    recorded = [_row(2.0), _row(None, "consume-hot"), _row(3.0, "stub-256k")]
    fresh = [_row(1.0), _row(1.0, "consume-hot"), _row(None, "stub-256k"), _row(1.0, "new")]
    assert [one.name for one in compare(recorded, fresh)] == ["produce-16k"]


def test_what_the_client_costs_is_not_compared() -> None:
    rows = [_row(2.0, "produce-16k.client_cpu")]
    assert compare(rows, rows) == []


def test_a_row_counts_only_when_it_is_lost_in_both_runs() -> None:
    first = Comparison("row", "kafka", 2.0, 1.0)
    assert verdict([first], [Comparison("row", "kafka", 2.0, 1.9)]) == []
    assert verdict([first], [Comparison("row", "kafka", 2.0, 0.9)]) == [first]
    assert verdict([first], []) == [first]


def test_our_own_side_that_shows_nothing_is_reported() -> None:
    assert broken([_row(None, ours=None), _row(None)]) == ["produce-16k: why"]


def test_a_planted_loss_fails_the_command(tmp_path: Path) -> None:
    recorded = _file(tmp_path / "recorded.json", _row(2.0), _row(2.0, "consume-hot"))
    lost = _file(tmp_path / "lost.json", _row(1.6), _row(2.0, "consume-hot"))
    kept = _file(tmp_path / "kept.json", _row(1.8), _row(2.0, "consume-hot"))
    assert main(["--recorded", recorded, "--fresh", lost]) == 1
    assert main(["--recorded", recorded, "--fresh", kept]) == 0


def test_a_run_that_compares_nothing_or_lacks_our_side_fails(tmp_path: Path) -> None:
    recorded = _file(tmp_path / "recorded.json", _row(2.0))
    nothing = _file(tmp_path / "nothing.json", _row(None))
    ours_broke = _file(tmp_path / "broke.json", _row(2.0), _row(None, "consume-hot", ours=None))
    assert main(["--recorded", recorded, "--fresh", nothing]) == 1
    assert main(["--recorded", recorded, "--fresh", ours_broke]) == 1
