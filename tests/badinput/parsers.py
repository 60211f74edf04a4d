"""Everything that reads bytes from outside, as functions for the fuzzer and for its corpus.

A parser either takes the bytes or raises a typed error; anything else is a find. Where there is a
second way to the same answer it is asked too: what was read is written and read again, compiled
code is compared with its Python twin, and what is decompressed is not larger than allowed.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from crc32c import crc32c

from harness.advertised import ADVERTISED, EVERY_VERSION
from harness.bad_input.batches import wrong_batch
from harness.bad_input.grammar import marked_request, valid_batch
from harness.bad_input.peers import plain_bodies
from harness.bad_input.plain_messages import (
    COMMANDS as PLAIN_COMMANDS,
)
from harness.bad_input.plain_messages import (
    HA_MESSAGES,
    encoded_command,
    encoded_ha,
    plain_metadata,
)
from harness.ids import as_epochs
from harness.plain import plain_fields
from penstock.base.errors import PlatformError
from penstock.base.ids import PeerId, Position
from penstock.client.groups import parse_assignment
from penstock.controller.commands.codec import (
    COMMANDS,
    decode_answer,
    decode_command,
    decode_error,
    encode_command,
    encode_error,
)
from penstock.controller.errors import NotActiveController, TopicExists
from penstock.controller.metadata.levels import METADATA_LEVELS
from penstock.controller.metadata.record_codec import decode_records, encode_records
from penstock.groups.records import decode_group_value, decode_key, decode_offset_value
from penstock.net.peer_auth import (
    DialerHandshake,
    Identity,
    ListenerHandshake,
    PeerHello,
    decode_identity,
    encode_identity,
)
from penstock.protocol import compiled as compiled_protocol
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.fetch import parse_fetch_request
from penstock.protocol.header import parse_request_header
from penstock.protocol.messages import decode_request, decode_response, encode_response
from penstock.protocol.produce import parse_produce_request
from penstock.protocol.schema import response_schema
from penstock.raft.configuration import Configuration
from penstock.record import compiled as compiled_record
from penstock.record import single_frame
from penstock.record.batch import (
    BATCH_HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    check_batch,
    read_header,
    seal,
)
from penstock.record.columns import decode_columns
from penstock.record.compression import BROKER_BOUNDS, Bounds, compress, decompress
from penstock.record.read import iter_records, open_batch
from penstock.record.validate import validate_records
from penstock.record.walk import COMPILED, find_fault
from penstock.replication import wire
from penstock.replication.messages import Refused
from penstock.runtime.calls.messages import CALL_CODEC, check, correlation_of
from penstock.runtime.peer_codec import UnknownPeerMessage
from penstock.runtime.raft.codec import RAFT_CODEC
from penstock.runtime.session.messages import SESSION_CODEC
from penstock.storage.replicate import base_manifest
from penstock.storage.replicate.base_manifest import BaseManifest, BaseSegment
from tests.badinput import grpc_parsers, telemetry_parser

T = TypeVar("T")

_INTERPRETED = (single_frame.find_lz4_frame, single_frame.find_zstd_frame)
_SMALL_BOUNDS = Bounds(output_bytes_max=256 << 10, ratio_free_bytes=64 << 10)


@dataclass(frozen=True, slots=True)
class Parser:
    """`parse` takes bytes or raises PlatformError; `examples` are good bytes to start from."""

    parse: Callable[[bytes], object]
    examples: Callable[[random.Random], Iterator[bytes]]


class Disagreement(AssertionError):
    """Two ways to read the same bytes do not agree."""


def survives(parser: Parser, data: bytes) -> bool:
    """Say whether the bytes were taken. Anything but a typed error gets out."""
    try:
        parser.parse(data)
    except PlatformError:
        return False
    return True


def _agree(one: object, other: object) -> None:
    if one != other:
        raise Disagreement(f"{one!r} is not {other!r}"[:500])


def request(data: bytes) -> None:
    """What a broker does with a frame before it knows whether the request makes sense."""
    frame = memoryview(data)
    header = _both(compiled_protocol.parse_request_header, parse_request_header, frame)
    versions = ADVERTISED.get(ApiKey(header.api_key)) if header.api_key in set(ApiKey) else None
    if versions is None or header.api_version not in versions:
        return
    if header.api_key == ApiKey.PRODUCE:
        arguments = frame, header.body_at, header.api_version
        found = _both(compiled_protocol.parse_produce_request, parse_produce_request, *arguments)
        for part in found.partitions:
            batch = frame[part.records_at : part.records_end]
            _both(compiled_record.check_batch, check_batch, batch, 0, len(batch))
            validate_records(batch, BROKER_BOUNDS)
    elif header.api_key == ApiKey.FETCH:
        parse_fetch_request(frame, header.body_at, header.api_version)
    else:
        decode_request(header.api_key, header.api_version, frame, header.body_at)


def _requests(rng: random.Random) -> Iterator[bytes]:
    return (bytes(marked_request(key, version, rng).frame) for key, version in EVERY_VERSION)


def _response(data: bytes) -> None:
    """The client's side; the first two bytes say which answer it is."""
    which = int.from_bytes(data[:2], "big")
    key, version = EVERY_VERSION[which % len(EVERY_VERSION)]
    decode_response(key, version, memoryview(data), min(2, len(data)))


def _responses(rng: random.Random) -> Iterator[bytes]:
    for at, (key, version) in enumerate(EVERY_VERSION):
        fields = plain_fields(response_schema(key, version), rng)
        yield at.to_bytes(2, "big") + encode_response(key, version, fields)


def _batch(data: bytes) -> None:
    """A record batch whose checksum and length are right, so that the rest is looked at."""
    batch = bytearray(data)
    if len(batch) >= BATCH_HEADER_BYTES:
        batch[8:LOG_OVERHEAD] = (len(batch) - LOG_OVERHEAD).to_bytes(4, "big")
        batch[16] = 2
        seal(memoryview(batch), 0, len(batch))
    view = memoryview(batch)
    _both(compiled_record.check_batch, check_batch, view, 0, len(view))
    block = open_batch(read_header(view), view, _SMALL_BOUNDS)
    _twins(block, read_header(view))
    for _ in iter_records(view, _SMALL_BOUNDS):
        pass
    for _ in decode_columns(view, 0, 1 << 40, bounds=_SMALL_BOUNDS):
        pass
    validate_records(view, _SMALL_BOUNDS)


def _both(compiled: Callable[..., T], interpreted: Callable[..., T], *arguments: object) -> T:
    """Call a compiled function and its Python twin: both give the same, or the same error."""
    found: list[object] = []
    for function in (compiled, interpreted):
        try:
            found.append(function(*arguments))
        except PlatformError as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1], found
    return interpreted(*arguments)


def _twins(block: memoryview, header: BatchHeader) -> None:
    """The compiled walk and the Python one say the same."""
    arguments = block, header.record_count, header.base_timestamp, True
    _agree(find_fault(*arguments), (COMPILED or find_fault)(*arguments))


def _batches(rng: random.Random) -> Iterator[bytes]:
    for codec in range(5):
        yield valid_batch(rng, codec)
    for _ in range(40):
        _, batch = wrong_batch(rng)
        if len(batch) < 4_096:
            yield batch


def _single(codec: int, block: memoryview) -> memoryview | None:
    """What a broker makes of the block; None where it refuses it."""
    for compiled, interpreted in zip(single_frame.COMPILED or (), _INTERPRETED, strict=False):
        _agree(compiled(block), interpreted(block))
    try:
        return single_frame.decompress_single(codec, block, _SMALL_BOUNDS)
    except PlatformError:
        return None


def _compressed(data: bytes) -> None:
    """The first byte says which codec."""
    codec = data[0] % 6 if data else 0
    block = memoryview(data)[1:]
    single = _single(codec, block)
    try:
        out = decompress(codec, block, _SMALL_BOUNDS)
    except PlatformError as error:
        if single is not None:
            raise Disagreement(f"a broker takes what no reader reads: {error}") from error
        raise
    if single is not None:
        _agree(single, out)
    if codec and len(out) > _SMALL_BOUNDS.limit(len(block)):
        raise Disagreement(f"{len(out)} bytes out of {len(block)}")


def _blocks(rng: random.Random) -> Iterator[bytes]:
    for codec in range(1, 5):
        for plain in (b"", b"a" * 300, rng.randbytes(90), bytes(70_000)):
            yield bytes((codec,)) + compress(codec, plain)
    yield (
        b"\x02\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + bytes((0, 0, 0, 4)) + b"\x02\x04ab"
    )


_HELLO = PeerHello(b"raft", "cluster", 7, 9)


def _handshake(data: bytes) -> None:
    """A listener and a dialer, each given the bytes as its next frame and the one after."""
    own = Identity(PeerHello(b"", "cluster", 1, 0), 1 << 20)
    listener = ListenerHandshake(own, (b"k" * 32,), b"n" * 32, lambda _: True)
    dialer = DialerHandshake(Identity(_HELLO, 1 << 20), b"k" * 32, b"d" * 32)
    for side in (listener, dialer):
        for body in (data[: len(data) // 2], data, data):
            try:
                side.step(body)
            except PlatformError:
                continue
    _agree(encode_identity(decode_identity(data)), data)


def _hellos(_: random.Random) -> Iterator[bytes]:
    yield encode_identity(Identity(_HELLO, 1 << 20))
    dialer = DialerHandshake(Identity(_HELLO, 1 << 20), b"k" * 32, b"d" * 32)
    yield dialer.start()
    listener = ListenerHandshake(
        Identity(PeerHello(b"", "cluster", 1, 0), 9), (b"k" * 32,), b"n" * 32, lambda _: True
    )
    challenge = listener.step(dialer.start()).answer
    yield challenge
    proof = dialer.step(challenge).answer
    yield proof
    yield listener.step(proof).answer


def _raft(data: bytes) -> None:
    message = RAFT_CODEC.decode(data)
    _agree(RAFT_CODEC.decode(b"".join(RAFT_CODEC.encode(message))), message)


def _session(data: bytes) -> None:
    message = SESSION_CODEC.decode(data)
    _agree(SESSION_CODEC.decode(b"".join(SESSION_CODEC.encode(message))), message)


def _call(data: bytes) -> None:
    try:
        message = CALL_CODEC.decode(data)
    except UnknownPeerMessage:
        correlation_of(memoryview(data))
        raise
    _agree(CALL_CODEC.decode(b"".join(CALL_CODEC.encode(message))), message)
    check(message)


def _ha(data: bytes) -> None:
    message = wire.decode(memoryview(data))
    again = wire.decode(memoryview(b"".join(map(bytes, wire.encode(message)))))
    if isinstance(message, Refused) and isinstance(again, Refused):
        message, again = message._replace(text=""), again._replace(text="")  # mended, then cut
    _agree(again, message)


def _metadata(data: bytes) -> None:
    found = decode_records(data)
    # Each alone: whether the level in front allows it is judged by replay.
    again = b"".join(encode_records([one], METADATA_LEVELS.highest) for one in found)
    _agree(decode_records(again), found)


def _command(data: bytes) -> None:
    command = decode_command(data)
    _agree(decode_command(encode_command(command)), command)


def _answer(data: bytes) -> None:
    """An error, or the answer to the command that the first byte chooses."""
    try:
        encode_error(decode_error(data))
    except PlatformError:
        classes = sorted(COMMANDS, key=lambda cls: cls.__name__)
        command = object.__new__(classes[data[0] % len(classes)] if data else classes[0])
        decode_answer(command, data[1:])


def _answers(_: random.Random) -> Iterator[bytes]:
    yield encode_error(TopicExists("a"))
    yield encode_error(NotActiveController(PeerId(3)))
    yield b"\x00\xc0"
    yield b"\x03\x91\x07"


def _group_record(data: bytes) -> None:
    """The kinds are told from each other by where they lie; so all are tried."""
    parse_assignment(data)
    refusals = 0
    for read in (decode_key, decode_offset_value, decode_group_value):
        try:
            read(data)
        except PlatformError:
            refusals += 1
    if refusals == 3:
        decode_key(data)


def _group_records(_: random.Random) -> Iterator[bytes]:
    yield b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
    yield b"\x00\x02\x00\x01g"
    yield b"\x00\x03" + bytes(8) + b"\xff\xff\xff\xff\x00\x01m" + bytes(8)
    yield b"\x00\x03\x00\x08consumer\x00\x00\x00\x01\x00\x05range\x00\x01m" + bytes(12)


def _configuration(data: bytes) -> None:
    _agree(Configuration.decode(Configuration.decode(data).encode()), Configuration.decode(data))


def _base_manifest(data: bytes) -> None:
    """An image whose two checksums and mark are right, so that the rest is looked at."""
    head_bytes = base_manifest.HEADER.size
    if len(data) > head_bytes + base_manifest.CRC.size:
        fields = base_manifest.HEADER.unpack_from(data)
        body = data[head_bytes + base_manifest.CRC.size :]
        mark = (base_manifest.MAGIC, base_manifest.VERSION)
        head = base_manifest.HEADER.pack(*mark, *fields[2:-1], crc32c(body))
        data = head + base_manifest.CRC.pack(crc32c(head)) + body
    image = BaseManifest.decode(data)
    _agree(BaseManifest.decode(image.encode()), image)


def _base_manifests(_: random.Random) -> Iterator[bytes]:
    segments = [
        BaseSegment(Position(0), Position(1 << 20), Position(1 << 20)),
        BaseSegment(Position(1 << 20), Position(1 << 21), Position(1_100_000)),
    ]
    yield BaseManifest(
        Position(1_100_000), segments, as_epochs((0, 0), (3, 900)), b"snapshot"
    ).encode()


PARSERS: dict[str, Parser] = {
    "request": Parser(request, _requests),
    "response": Parser(_response, _responses),
    "batch": Parser(_batch, _batches),
    "compression": Parser(_compressed, _blocks),
    "handshake": Parser(_handshake, _hellos),
    "raft": Parser(_raft, lambda rng: plain_bodies(b"raft", rng)),
    "session": Parser(_session, lambda rng: plain_bodies(b"session", rng)),
    "call": Parser(_call, lambda rng: plain_bodies(b"call", rng)),
    "ha": Parser(_ha, lambda rng: (encoded_ha(cls, rng) for cls in HA_MESSAGES)),
    "metadata": Parser(_metadata, plain_metadata),
    "command": Parser(_command, lambda rng: (encoded_command(cls, rng) for cls in PLAIN_COMMANDS)),
    "answer": Parser(_answer, _answers),
    "group": Parser(_group_record, _group_records),
    "configuration": Parser(
        _configuration,
        lambda _: iter((Configuration.of({PeerId(1): "a:1", PeerId(2): "b:2"}).encode(),)),
    ),
    "base-manifest": Parser(_base_manifest, _base_manifests),
    "http2": Parser(grpc_parsers.connection, grpc_parsers.connections),
    "header-block": Parser(grpc_parsers.header_block, grpc_parsers.header_blocks),
    "protobuf": Parser(grpc_parsers.protobuf, grpc_parsers.protobufs),
    "telemetry": Parser(telemetry_parser.points, telemetry_parser.pushes),
}
