"""Values to columns: what fits, what does not, and that cutting batches changes nothing."""

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark.errors import OptionError
from penstock.spark.land.fit import (
    Fitted,
    JsonConverter,
    fit,
    infer_schema,
    text_converter,
)

_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("seen", pa.timestamp("us", tz="UTC")),
        pa.field("day", pa.date32()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("owner", pa.struct([pa.field("name", pa.string())])),
    ]
)


def _fit(*values: bytes | None) -> Fitted:
    return fit(pa.array(values, pa.binary()), JsonConverter(_SCHEMA))


def test_fields_are_typed_absent_ones_are_null_and_others_are_left_out() -> None:
    fitted = _fit(
        b'{"path": "a", "size": 5, "seen": "2026-01-01T00:00:00Z", "day": "2026-01-02",'
        b' "tags": ["x"], "owner": {"name": "o", "id": 1}, "more": [1]}',
        b"{}",
    )
    first, second = fitted.columns.to_pylist()
    assert (first["path"], first["size"], first["tags"]) == ("a", 5, ["x"])
    assert first["seen"].isoformat() == "2026-01-01T00:00:00+00:00"
    assert first["day"].isoformat() == "2026-01-02"
    assert first["owner"] == {"name": "o"}
    assert set(second.values()) == {None}
    assert fitted.rejected == []


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"5",
        b"[{}]",
        b"not json",
        b'{"path": 5}',
        b'{"size": "5"}',
        b'{"size": 1.5}',
        b'{"size": 9223372036854775808}',
        b'{"day": "tomorrow"}',
        b'{"path": "\xff"}',
        b'{"path": "a", "path": "b"}',
        b'{"path": "a"',
        b"{}{}",
        b"{} null",
        b'{}} {"v": {}',
        b'{"path": "\\ud800"}',
        b'{"a":' * 100_000,
        b"[" * 100_000,
    ],
)
def test_what_does_not_fit_is_rejected_alone_and_with_a_reason(value: bytes | None) -> None:
    fitted = _fit(b'{"path": "before"}', value, b'{"path": "after"}')
    assert fitted.columns.column("path").to_pylist() == ["before", "after"]
    assert fitted.rows is not None
    assert fitted.rows.to_pylist() == [0, 2]
    assert [item.row for item in fitted.rejected] == [1]
    assert 0 < len(fitted.rejected[0].reason) <= 300


def test_values_that_only_join_into_documents_do_not_shift_the_rows() -> None:
    fitted = _fit(b'{} {"path":', b'{"x": 1}}', b'{"path": "a"', b',"size": 1}', b'{"path": "ok"}')
    assert fitted.columns.column("path").to_pylist() == ["ok"]
    assert [item.row for item in fitted.rejected] == [0, 1, 2, 3]


def test_line_breaks_inside_a_document_are_fine() -> None:
    assert _fit(b'{\n "path":\r\n "a"}\n').columns.column("path").to_pylist() == ["a"]


_leaf = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=5)
_documents = st.dictionaries(
    st.sampled_from(["path", "size", "other"]), _leaf | st.lists(_leaf, max_size=2), max_size=3
)
_values = st.lists(
    st.binary(max_size=6) | st.none() | _documents.map(lambda d: json.dumps(d).encode()),
    max_size=30,
)
_PAIR = pa.schema([pa.field("path", pa.string()), pa.field("size", pa.int64())])


def _by_hand(value: bytes | None) -> tuple[str | None, int | None] | None:
    """The dumb twin: one value with Python's parser; None if it does not fit."""
    try:
        found = json.loads(value or b"")
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    path, size = found.get("path"), found.get("size")
    is_whole = type(size) is int and -(2**63) <= size < 2**63
    if not (path is None or isinstance(path, str)) or not (size is None or is_whole):
        return None
    return path, size


@settings(deadline=None)
@given(_values, st.integers(1, 7))
def test_fitting_agrees_with_one_value_at_a_time(values: list[bytes | None], step: int) -> None:
    convert = JsonConverter(_PAIR)
    expected = [_by_hand(value) for value in values]
    whole = fit(pa.array(values, pa.binary()), convert)
    rows = list(zip(*(column.to_pylist() for column in whole.columns.columns), strict=True))
    assert rows == [pair for pair in expected if pair is not None]
    assert [item.row for item in sorted(whole.rejected)] == [
        row for row, pair in enumerate(expected) if pair is None
    ]
    in_steps = [
        fit(pa.array(values[at : at + step], pa.binary()), convert)
        for at in range(0, len(values), step)
    ]
    assert [row for part in in_steps for row in part.columns.to_pylist()] == (
        whole.columns.to_pylist()
    )
    assert [item.reason for part in in_steps for item in sorted(part.rejected)] == [
        item.reason for item in sorted(whole.rejected)
    ]


def test_text_takes_utf8_and_nulls() -> None:
    fitted = fit(pa.array([b"a", None, b"\xff", "é".encode()], pa.binary()), text_converter)
    assert fitted.columns.column("value").to_pylist() == ["a", None, "é"]
    assert [item.row for item in fitted.rejected] == [2]


def test_types_json_is_not_read_into_are_refused_at_the_start() -> None:
    with pytest.raises(OptionError, match="field m"):
        JsonConverter(pa.schema([pa.field("m", pa.map_(pa.string(), pa.int64()))]))


def test_inferred_fields_take_the_widest_type_and_stay_in_order() -> None:
    values = [b'{"a": 1, "b": "x"}', b"no", b'{"a": 1.5, "c": null, "d": {"e": [1]}}', b'{"b": 5}']
    found = infer_schema(pa.array(values, pa.binary()))
    assert found.names == ["a", "b", "c", "d"]
    assert [str(kind) for kind in found.types] == [
        "double",
        "string",
        "string",
        "struct<e: list<item: int64>>",
    ]
    with pytest.raises(OptionError, match="no JSON objects"):
        infer_schema(pa.array([b"1", b"{}"], pa.binary()))
