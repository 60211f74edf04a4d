"""The columns of a topic, for Spark.

They are those of Spark's Kafka source, in its order, so that jobs written for it keep working. What
they are in Arrow stands in `columns.py`, which does not need PySpark.
"""

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.spark.errors import OptionError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_BASE = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
_FULL = StructType([*_BASE.fields, StructField("headers", ArrayType(_HEADER))])


def source_schema(*, include_headers: bool) -> StructType:
    """Return the schema of the source."""
    return _FULL if include_headers else _BASE


def checked_columns(schema: StructType) -> tuple[str, ...]:
    """Return the column names of a user's schema: a selection of the columns, in any order.

    Spark does not push column selection to Python sources; `.schema("offset long")` is the way to
    leave columns out before they are built. Raises OptionError for other columns or types.
    """
    types = {field.name: field.dataType for field in _FULL.fields}
    for field in schema.fields:
        if field.name not in types:
            raise OptionError(f"a topic has no column {field.name}; it has {', '.join(types)}")
        wanted, given = types[field.name].simpleString(), field.dataType.simpleString()
        if wanted != given:
            raise OptionError(f"column {field.name} is {wanted}, not {given}")
    return tuple(field.name for field in schema.fields)
