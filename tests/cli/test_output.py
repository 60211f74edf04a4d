import json
import sys

import pytest

from penstock.cli.output import CALENDAR_END_MS, Output, cell, moment, print_rows

ROWS: list[dict[str, object]] = [{"name": "a", "count": 1}, {"name": "longer", "count": None}]


def test_a_table_has_aligned_columns(capsys):
    print_rows(ROWS, ["name", "count"], Output.TABLE)
    assert capsys.readouterr().out == "NAME    COUNT\na       1\nlonger  -\n"


def test_json_has_the_same_columns(capsys):
    print_rows(ROWS, ["name", "count"], Output.JSON)
    assert json.loads(capsys.readouterr().out) == ROWS


def test_an_empty_table_is_its_head(capsys):
    print_rows([], ["name"], Output.TABLE)
    assert capsys.readouterr().out == "NAME\n"


def test_cells_show_control_characters_as_escapes():
    assert cell("a\x1b[31m\n") == "a\\x1b[31m\\x0a"
    assert [cell(value) for value in (True, [1, 2], {"a": 1}, b"\xff")] == [
        "yes",
        "1,2",
        "a=1",
        "\\xff",
    ]


def test_a_cell_without_anything_in_it_is_a_dash():
    nothing: list[object] = [None, "", [], (), {}, b""]
    assert [cell(value) for value in nothing] == ["-"] * 6
    assert [cell(value) for value in (0, False, " ")] == ["0", "no", " "]


@pytest.mark.parametrize("columns", [10, 16, 17, 40, 200])
def test_a_terminal_of_any_width_shows_every_cell_whole(capsys, monkeypatch, columns):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    print_rows(ROWS, ["name", "count"], Output.TABLE)
    shown = capsys.readouterr().out
    assert "longer" in shown
    assert "count" in shown.lower()
    assert "…" not in shown


def test_times_are_shown_in_utc_and_those_of_no_calendar_as_numbers():
    assert moment(1_767_225_600_007) == "2026-01-01 00:00:00.007+00:00"
    assert moment(CALENDAR_END_MS) == "9999-12-31 23:59:59.999+00:00"
    assert moment(CALENDAR_END_MS + 1) == "253402300800000"
    assert (moment(2**63 - 1), cell(moment(-1))) == ("9223372036854775807", "-")
