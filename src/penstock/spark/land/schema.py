"""Chooses a landing's columns: from the option, from the table, or from the first records."""

from pathlib import Path

import pyarrow as pa

from penstock.spark.broker_access import BrokerAccess
from penstock.spark.errors import OptionError
from penstock.spark.land.fit import JsonConverter, infer_schema
from penstock.spark.land.options import INFER_SCHEMA, RAW_SCHEMA, TEXT_SCHEMA, LandOptions
from penstock.spark.land.shape import Shape
from penstock.spark.land.tables import stored_facts
from penstock.spark.land.tables.port import decode_schema
from penstock.spark.ranges import OffsetRange, PartitionName
from penstock.spark.reading import read_range, warn_of_corrupt

SAMPLE_RECORDS = 5_000
"""Records per partition that `--schema infer` looks at, from the oldest on."""
_OURS = ("_key", "_partition", "_offset", "_timestamp")


def choose_shape(options: LandOptions, access: BrokerAccess) -> Shape:
    """Return how records become rows. A DDL schema needs a Spark session."""
    if options.schema == RAW_SCHEMA:
        return Shape("raw")
    if options.schema == TEXT_SCHEMA:
        return Shape("text")
    if options.schema != INFER_SCHEMA:
        return _json(parse_ddl(options.schema))
    facts = stored_facts(options.format, Path(options.to))
    if facts is not None and "penstock.schema" in facts:
        stored = decode_schema(facts["penstock.schema"])
        return _json(pa.schema([field for field in stored if field.name not in _OURS]))
    return _json(infer_schema(_sample(options, access)))


def _json(fields: pa.Schema) -> Shape:
    JsonConverter(fields)  # raises OptionError for types that are not supported
    return Shape("json", fields)


def parse_ddl(text: str) -> pa.Schema:
    """Return the Arrow schema of a Spark DDL list. Raises OptionError."""
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415
    from pyspark.sql.types import StructType  # noqa: PLC0415

    try:
        parsed = StructType.fromDDL(text)
        assert isinstance(parsed, StructType), "fromDDL of a list gives a struct"
        return to_arrow_schema(parsed, timezone="UTC")
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        example = '"path string, size long, mtime timestamp"'
        raise OptionError(f"--schema {text!r}: {reason}; write it like {example}") from error


def _sample(options: LandOptions, access: BrokerAccess) -> pa.Array:
    names = [PartitionName(options.topic, n) for n in access.partitions(options.topic)]
    low, high = access.earliest(names), access.latest(names)
    values: list[pa.Array] = []
    for name in names:
        end = min(high[name], low[name] + SAMPLE_RECORDS)
        wanted = OffsetRange(name.topic, name.partition, low[name], end)
        for batch in read_range(
            access,
            wanted,
            ("value",),
            fail_on_data_loss=False,
            on_corrupt=warn_of_corrupt if options.skip_corrupt else None,
        ):
            values.append(batch.column(0))  # noqa: PERF401  a generator that must be closed
    if not values:
        raise OptionError("--schema infer: the topic is empty; give a schema")
    return pa.concat_arrays(values)
