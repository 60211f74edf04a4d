"""Whatever shape of a codec the broker takes, every stock consumer reads it and what follows."""

import gzip
from collections.abc import Callable
from contextlib import closing

import cramjam
import pytest
from lz4 import frame

from penstock.record.build import Record, build_batch
from penstock.record.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from tests.compat.test_codecs_between_clients import IN_PYTHON, WRITTEN, one_partition
from tests.live_node import RawClient
from tests.lying import send_batch
from tests.record.batches import batch
from tests.record.test_compression import xerial
from tests.record.test_single_frame import lz4, raw_snappy, zstd_stream

__all__ = ["one_partition"]

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SHAPES: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "no codec": (NONE, bytes),
    "gzip": (GZIP, gzip.compress),
    "snappy, raw": (SNAPPY, raw_snappy),
    "xerial's blocks": (SNAPPY, lambda plain: xerial(raw_snappy(plain[:9]), raw_snappy(plain[9:]))),
    "lz4": (LZ4, lz4),
    "lz4 that says its size": (LZ4, lambda plain: lz4(plain, store_size=True)),
    "lz4 with all checksums": (
        LZ4,
        lambda plain: lz4(plain, block_checksum=True, content_checksum=True),
    ),
    "lz4 in large blocks": (
        LZ4,
        lambda plain: frame.compress(plain, block_size=7, block_linked=False),
    ),
    "zstd": (ZSTD, lambda plain: compress(ZSTD, plain)),
    "zstd as a stream": (ZSTD, zstd_stream),
    "zstd at its hardest": (ZSTD, lambda plain: bytes(cramjam.zstd.compress(plain, 19))),
}


def packed(shape: str, records: list[Record]) -> bytes:
    """A batch of the records in this shape."""
    codec, pack = SHAPES[shape]
    block = build_batch(records)[61:]
    first, newest = records[0].timestamp_ms, max(record.timestamp_ms for record in records)
    fields = {"attributes": codec, "base_timestamp": first, "max_timestamp": newest}
    return bytes(batch(pack(block), len(records), **fields))


@pytest.mark.parametrize("client", [*IN_PYTHON])
def test_every_shape_of_a_codec_is_read(bootstrap: str, one_partition: str, client: str) -> None:
    shapes = [*SHAPES]
    with closing(RawClient(int(bootstrap.rpartition(":")[2]))) as sender:
        for at in range(0, len(WRITTEN), 4):
            records = [Record(one.key, one.value, one.headers, one.timestamp_ms)
                       for one in WRITTEN[at : at + 4]]  # fmt: skip
            send_batch(sender, one_partition, packed(shapes[at // 4 % len(shapes)], records))
    assert IN_PYTHON[client][1](bootstrap, one_partition) == WRITTEN
