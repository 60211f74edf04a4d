"""Converts record values to table columns, and finds the records that do not fit the schema.

The fast path converts a whole Arrow batch at once. If that fails, the batch is split into parts,
and parts that fail are split again, until each record that does not fit is alone. With few bad
records this costs twice the fast path; with many it comes to one conversion per record. The result
does not depend on how batches were split, so that a second attempt at the same offsets gives the
same rows and the same dead letters.

JSON is given to Arrow's parser as `{"v": VALUE}` lines. The wrapper avoids two problems: a bare
`null` line crashes the parser, and values such as `{} {"a":` and `{}}` would join into two valid
documents and shift the rows, whereas `}` and `{"v":` between two values can only be parsed at the
top level. JSON is not repaired, strings are not coerced to numbers, and fields that are not in the
schema are dropped.
"""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock.spark.errors import OptionError

_OPEN, _CLOSE = b'{"v":', b"}"
_PARTS = 4
"""With one bad record in a thousand, fewer or more parts take 1.5 times as long (measured)."""
REASON_CHARACTERS_MAX = 300
"""Longest reason kept; the parser quotes the value in some of its messages."""


class Rejected(NamedTuple):
    """One record that does not fit: its row in the batch and the reason."""

    row: int
    reason: str


class Fitted(NamedTuple):
    """The columns of the records that fit (in order), their rows in the batch, and the others."""

    columns: pa.RecordBatch
    rows: pa.Array | None
    """int64 rows of the source batch that fit; None when all do."""
    rejected: list[Rejected]


Convert = Callable[[pa.Array], pa.RecordBatch]
"""Converts all values of a batch to columns; raises pa.ArrowInvalid if one does not fit."""


def fit(values: pa.Array, convert: Convert) -> Fitted:
    """Convert the values that fit, and return the others as rejected."""
    try:
        return Fitted(convert(values), None, [])
    except pa.ArrowInvalid:
        pass
    kept: list[pa.RecordBatch] = []
    spans: list[tuple[int, int]] = []
    rejected: list[Rejected] = []
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        try:
            kept.append(convert(values.slice(start, end - start)))
            spans.append((start, end))
        except pa.ArrowInvalid as error:
            if end - start == 1:
                rejected.append(Rejected(start, _reason(error)))
                continue
            step = -(-(end - start) // _PARTS)
            parts = [(low, min(low + step, end)) for low in range(start, end, step)]
            waiting += reversed(parts)
    columns = pa.Table.from_batches(kept, schema=convert(values[:0]).schema).combine_chunks()
    rows = pa.array([row for span in spans for row in range(*span)], pa.int64())
    batch = columns.to_batches()[0] if columns.num_rows else convert(values[:0])
    return Fitted(batch, rows, rejected)


def _reason(error: pa.ArrowInvalid) -> str:
    text = str(error).removeprefix("JSON parse error: ").replace("/v/", "/", 1)
    return text.removesuffix(" in row 0")[:REASON_CHARACTERS_MAX]


def text_converter(values: pa.Array) -> pa.RecordBatch:
    """Convert bytes to strings; a null stays null."""
    return pa.record_batch({"value": pc.cast(values, pa.string())})


class JsonConverter:
    """Converts JSON objects to the columns of `schema`."""

    def __init__(self, schema: pa.Schema) -> None:
        """Raise OptionError for types that JSON is not converted to."""
        for field in schema:
            _check_type(field.name, field.type, nested=False)
        self.schema = schema
        parsed = [
            pa.field(f.name, pa.string() if pa.types.is_date(f.type) else f.type) for f in schema
        ]
        self._options = pj.ParseOptions(
            explicit_schema=pa.schema([pa.field("v", pa.struct(parsed))]),
            unexpected_field_behavior="ignore",
        )

    def __call__(self, values: pa.Array) -> pa.RecordBatch:
        if len(values) == 0:
            return _empty(self.schema)
        if values.null_count:
            raise pa.ArrowInvalid("no value")
        column = _parse(values, self._options)
        arrays = [
            pc.cast(array, field.type) if array.type != field.type else array
            for array, field in zip(column.flatten(), self.schema, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        batch.validate(full=True)
        return batch


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _parse(values: pa.Array, options: pj.ParseOptions) -> pa.StructArray:
    """Parse one document per value; raises pa.ArrowInvalid unless each gives exactly one object."""
    edges = pa.array([0, len(values)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(edges, values), _CLOSE + b"\n" + _OPEN)
    text = b"".join((_OPEN, joined[0].as_buffer(), _CLOSE))
    read = pj.ReadOptions(use_threads=False, block_size=len(text) + 1)
    table = pj.read_json(pa.BufferReader(text), read_options=read, parse_options=options)
    if table.num_rows != len(values):
        raise pa.ArrowInvalid("more than one JSON document in a value")
    column = table.column("v").combine_chunks()
    if column.null_count:
        raise pa.ArrowInvalid("the JSON value is null, not an object")
    return column


def _check_type(name: str, kind: pa.DataType, *, nested: bool) -> None:
    if pa.types.is_struct(kind):
        for field in kind:
            _check_type(f"{name}.{field.name}", field.type, nested=True)
    elif pa.types.is_list(kind):
        _check_type(f"{name}[]", kind.value_type, nested=True)
    elif pa.types.is_map(kind) or (nested and pa.types.is_date(kind)):
        raise OptionError(f"--schema: field {name} is {kind}; JSON is not read into that type")


def infer_schema(values: pa.Array) -> pa.Schema:
    """Return the columns that the JSON objects among `values` have, in order of appearance.

    A field with several number types gets the widest. A field with other mixed types is a string,
    and records with another type in it are dead letters. Raises OptionError if no value is a JSON
    object.
    """
    found: list[pa.Schema] = []

    def keep_types(part: pa.Array) -> pa.RecordBatch:
        if len(part) and part.null_count:
            raise pa.ArrowInvalid("no value")
        if len(part):
            column = _parse(part, pj.ParseOptions(unexpected_field_behavior="infer"))
            if not pa.types.is_struct(column.type):
                raise pa.ArrowInvalid("not an object")
            found.append(pa.schema(list(column.type)))
        return pa.RecordBatch.from_arrays([pa.nulls(len(part))], names=["v"])

    fit(values, keep_types)
    if not any(len(schema) for schema in found):
        raise OptionError("--schema infer: the first records are no JSON objects; give a schema")
    fields: dict[str, pa.DataType] = {}
    for field in (field for schema in found for field in schema):
        fields[field.name] = _wider(fields.get(field.name, pa.null()), field.type)
    return pa.schema([pa.field(name, _plain(kind)) for name, kind in fields.items()])


def _wider(data_type: pa.DataType, other: pa.DataType) -> pa.DataType:
    schemas = [pa.schema([pa.field("x", kind)]) for kind in (data_type, other)]
    try:
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.string()


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return a type for an inferred one that Spark and both table formats have."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _plain(f.type)) for f in kind])
    return kind
