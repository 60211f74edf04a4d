import io
import json
import sys

import pytest

from penstock.base.errors import ConfigError
from penstock.cli.records import reading as records_in
from penstock.cli.records.reading import Format, KeyChoice, read_records


def read(tmp_path, content, form, **key):
    path = tmp_path / "input"
    path.write_bytes(content)
    taken: list[int] = []
    records = list(read_records([str(path)], form, KeyChoice(**key), advance=taken.append))
    assert sum(taken) == len(content)
    return [tuple(record[:2]) for record in records]


def refusal(tmp_path, content, form, **key):
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, content, form, **key)
    return str(raised.value).replace(str(tmp_path), "")


def test_lines_are_records_without_their_line_end(tmp_path):
    assert read(tmp_path, b"one\r\n\ntwo", Format.LINES) == [
        (None, b"one"),
        (None, b""),
        (None, b"two"),
    ]


def test_lines_may_hold_any_bytes(tmp_path):
    assert read(tmp_path, b"\xff\x00\n", Format.LINES) == [(None, b"\xff\x00")]


def test_a_separator_splits_at_its_first_place(tmp_path):
    records = read(tmp_path, b"k::v::w\n::x\n", Format.LINES, separator="::")
    assert records == [(b"k", b"v::w"), (b"", b"x")]


def test_a_tab_may_be_written_as_shells_hand_it_on(tmp_path):
    for written in ("\t", r"\t"):
        records = read(tmp_path, b"k\tv\n", Format.LINES, separator=written)
        assert records == [(b"k", b"v")]


def test_a_line_without_the_separator_is_named(tmp_path):
    message = refusal(tmp_path, b"a,b\nc\n", Format.LINES, separator=",")
    assert message == "/input, line 2: no ',' between key and value"


def test_json_lines_are_sent_as_they_stand_and_keyed_by_a_field(tmp_path):
    content = b'{"id": 7, "a": "\xc3\xa9"}\n\n{"id": "x"}\n{"id": null}\n'
    assert read(tmp_path, content, Format.JSON, field="id") == [
        (b"7", b'{"id": 7, "a": "\xc3\xa9"}'),
        (b"x", b'{"id": "x"}'),
        (None, b'{"id": null}'),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"id": 1}\n{"a\n', "/input, line 2: not JSON: "),
        (b'{"a": 1}\n', "/input, line 1: no field id for the key"),
        (b"[1]\n", "/input, line 1: no field id for the key"),
        (b"\xff\xfe\n", "/input, line 1: not JSON: "),
    ],
)
def test_a_json_line_that_does_not_fit_is_named(tmp_path, content, message):
    assert refusal(tmp_path, content, Format.JSON, field="id").startswith(message)


def test_csv_rows_become_json_objects(tmp_path):
    content = b'id,text\n1,"a, ""b""\nc"\n2,\n'
    records = read(tmp_path, content, Format.CSV, field="id")
    assert [(key, json.loads(value)) for key, value in records] == [
        (b"1", {"id": "1", "text": 'a, "b"\nc'}),
        (b"2", {"id": "2", "text": ""}),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"id,text\n1,2,3\n", "/input, line 2: more or fewer cells than the header line"),
        (b"id,text\n1\n", "/input, line 2: more or fewer cells than the header line"),
        (b"a,b\n1,2\n", "/input, line 1: no column id; there are: a, b"),
        (b"id\n\xff\n", "not CSV in UTF-8"),
    ],
)
def test_csv_that_does_not_fit_is_named(tmp_path, content, message):
    assert message in refusal(tmp_path, content, Format.CSV, field="id")


def test_an_empty_csv_has_no_records(tmp_path):
    assert read(tmp_path, b"", Format.CSV) == []


def test_a_file_is_one_record_keyed_by_its_path(tmp_path):
    assert read(tmp_path, b"a\nb", Format.FILE) == [(str(tmp_path / "input").encode(), b"a\nb")]
    assert read(tmp_path, b"a\nb", Format.FILE, none=True) == [(None, b"a\nb")]


def test_no_name_and_a_dash_mean_stdin(monkeypatch):
    for names in ([], ["-"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"x\ny\n")))
        records = read_records(names, Format.LINES, KeyChoice())
        assert [record.value for record in records] == [b"x", b"y"]


def test_an_absent_file_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match="can not be read: No such file or directory"):
        list(read_records([str(tmp_path / "absent")], Format.LINES, KeyChoice()))


def test_a_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(records_in, "LINE_BYTES_MAX", 10)
    message = refusal(tmp_path, b"0123456789\n" + b"x" * 100, Format.LINES)
    assert message == "/input, line 1: longer than 10 bytes"


@pytest.mark.parametrize(
    ("form", "key"),
    [
        (Format.LINES, {"field": "a"}),
        (Format.CSV, {"separator": ","}),
        (Format.JSON, {"field": "a", "none": True}),
        (Format.LINES, {"separator": ""}),
    ],
)
def test_key_choices_that_mean_nothing_are_refused(form, key):
    with pytest.raises(ConfigError, match="--key-"):
        list(read_records([], form, KeyChoice(**key)))


def test_a_line_that_is_no_json_is_told_by_one_line_number_and_a_column(tmp_path):
    text = refusal(tmp_path, b'{"a": 1}\n{"a": x}\n', Format.JSON)
    assert text == "/input, line 2: not JSON: Expecting value, column 7"
    text = refusal(tmp_path, b"no\n", Format.RECORD)
    assert text == "/input, line 1: not JSON: Expecting value, column 1"


SURROGATE = "half of a surrogate pair can not be stored as UTF-8"
HEADERS = "headers is no list of objects with a name and a value"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[1]", "it is no object with key and value"),
        (b'{"headers": [{}]}', HEADERS),
        (b'{"headers": [{"name": null}]}', HEADERS),
        (b'{"headers": ["a"]}', HEADERS),
        (b'{"headers": {"a": "b"}}', HEADERS),
        (b'{"headers": "a"}', HEADERS),
        (rb'{"headers": [{"name": "\ud800"}]}', SURROGATE),
        (rb'{"headers": [{"name": "a", "value": "\ud800"}]}', SURROGATE),
        (rb'{"key": "\ud800"}', SURROGATE),
        (b'{"value_base64": "%"}', "Only base64 data is allowed"),
    ],
)
def test_a_record_that_consume_would_not_print_is_told(tmp_path, line, why):
    text = refusal(tmp_path, b'{"value": "x"}\n' + line + b"\n", Format.RECORD)
    assert text == f"/input, line 2: not a record as consume prints it: {why}"


@pytest.mark.parametrize("form", [Format.JSON, Format.RECORD])
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[" * 100_000, "the JSON is nested too deeply"),
        (b'{"value": ' + b"9" * 10_000 + b"}", "a number in the JSON has above 4300 digits"),
    ],
)
def test_json_beyond_what_the_parser_takes_is_told_by_its_line(tmp_path, form, line, why):
    assert refusal(tmp_path, b"{}\n" + line, form) == f"/input, line 2: {why}"


def test_a_key_that_can_not_be_stored_is_told_by_its_line(tmp_path):
    text = refusal(tmp_path, b'{"id": 1}\n{"id": "\\ud800"}\n', Format.JSON, field="id")
    assert text == f"/input, line 2: field id: {SURROGATE}"


@pytest.mark.parametrize("separator", [r"\t", "\t"])
def test_a_separator_that_is_missing_is_shown_as_a_person_writes_it(tmp_path, separator):
    text = refusal(tmp_path, b"a b\n", Format.LINES, separator=separator)
    assert text == r"/input, line 1: no '\t' between key and value"


class Terminal(io.RawIOBase):
    """What two Ctrl-D behind a line without an end look like: more may come after the end."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self.pieces.pop(0)
        buffer[: len(piece)] = piece
        return len(piece)


@pytest.mark.parametrize(
    ("form", "pieces", "values"),
    [
        (Format.LINES, [b"one\n", b"two", b""], [b"one", b"two"]),
        (Format.JSON, [b"1\n", b"2", b""], [b"1", b"2"]),
        (Format.CSV, [b"a\n1\n", b"2", b""], [b'{"a": "1"}', b'{"a": "2"}']),
    ],
)
def test_a_last_line_without_an_end_is_the_last_at_a_terminal_too(
    monkeypatch, form, pieces, values
):
    file = io.BufferedReader(Terminal(*pieces))
    monkeypatch.setattr(records_in, "_open", lambda *_: file)
    assert [record.value for record in read_records([], form, KeyChoice())] == values
