"""The columns of a topic, for Arrow: what sources, landed tables and archives have in common.

The fields must equal those that Spark derives from its own schema (all nullable, microseconds in
UTC; `schema.py`), since Spark compares them before it takes the first batch.
"""

import pyarrow as pa

ARROW_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
ARROW_COLUMNS: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": ARROW_HEADERS,
}


def arrow_schema(columns: tuple[str, ...]) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    return pa.schema([pa.field(name, ARROW_COLUMNS[name]) for name in columns])
