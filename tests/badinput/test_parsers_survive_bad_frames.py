"""Thousands of bad frames through everything that parses: typed errors only, bounded memory."""

import gc
import struct
from pathlib import Path

import pytest

from penstock.base.errors import PlatformError
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.fetch import parse_fetch_request
from penstock.protocol.header import parse_request_header
from penstock.protocol.messages import decode_request
from penstock.protocol.produce import parse_produce_request
from penstock.record.batch import check_batch
from penstock.record.compression import BROKER_BOUNDS
from penstock.record.scan import validate_records
from tests.badinput.batches import bomb
from tests.badinput.generator import bad_frames
from tests.protocol.advertised import ADVERTISED, EVERY_VERSION

FRAMES = 5_000
GROWTH_BYTES_MAX = 32 << 20
PAGE_BYTES = 4096


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def parse(frame: memoryview) -> None:
    """What a broker does with a frame before it knows whether the request makes sense."""
    header = parse_request_header(frame)
    versions = ADVERTISED.get(ApiKey(header.api_key)) if header.api_key in set(ApiKey) else None
    if versions is None or header.api_version not in versions:
        return
    if header.api_key == ApiKey.PRODUCE:
        request = parse_produce_request(frame, header.body_at, header.api_version)
        for part in request.partitions:
            batch = frame[part.records_at : part.records_end]
            check_batch(batch, 0, len(batch))
            validate_records(batch, BROKER_BOUNDS)
    elif header.api_key == ApiKey.FETCH:
        parse_fetch_request(frame, header.body_at, header.api_version)
    else:
        decode_request(header.api_key, header.api_version, frame, header.body_at)


def frames_of(data: bytes) -> list[memoryview]:
    """Cut a stream of bytes into frames as a connection does, as far as it can."""
    found = []
    view = memoryview(bytearray(data))
    while len(view) >= 4:
        (size,) = struct.unpack_from(">i", view)
        if not 10 <= size <= len(view) - 4:
            break
        found.append(view[4 : 4 + size])
        view = view[4 + size :]
    return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("seed", [1, 2])
def test_parsers_survive_bad_frames(seed: int) -> None:
    for codec in (1, 2, 3, 4):
        bomb(codec)
    refused: dict[str, int] = {}
    before = 0
    for number, bad in enumerate(bad_frames(seed, FRAMES)):
        if number == FRAMES // 10:  # by then all schemas are loaded
            gc.collect()
            before = resident_bytes()
        for frame in frames_of(bad.data):
            try:
                parse(frame)
            except PlatformError as error:
                name = type(error).__name__
                refused[name] = refused.get(name, 0) + 1
            except BaseException as error:
                error.add_note(f"frame {number} of seed {seed}: {bad.name}: {bad.data[:300].hex()}")
                raise
    gc.collect()
    assert resident_bytes() - before < GROWTH_BYTES_MAX
    assert refused["MalformedRequest"] > FRAMES // 5
    assert refused["CorruptBatch"] > 0


def test_the_same_seed_gives_the_same_frames() -> None:
    assert list(bad_frames(7, 300)) == list(bad_frames(7, 300))
    assert list(bad_frames(7, 300)) != list(bad_frames(8, 300))


def test_every_key_and_version_is_met() -> None:
    met = {bad.name.split(": ")[1] for bad in bad_frames(1, 2_000)}
    assert met >= {f"{key.name} v{version}" for key, version in EVERY_VERSION}
