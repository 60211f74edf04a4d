"""Thousands of bad frames through everything that parses: typed errors only, bounded memory."""

import gc
import struct
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from harness.advertised import EVERY_VERSION
from harness.bad_input.batches import bomb
from harness.bad_input.frame import BadFrame, random_of
from harness.bad_input.generator import bad_frame, bad_frames
from harness.bad_input.grammar import marked_request
from harness.bad_input.grpc_frames import grpc_frames, wrong_body
from harness.bad_input.peers import PURPOSES, member_frame
from harness.bad_input.sweeps import sweep
from penstock.base.errors import PlatformError
from penstock.protocol.messages import encode_request
from tests.badinput.fuzz import CORPUS, NAMES
from tests.badinput.parsers import PARSERS, request, survives

FRAMES = 5_000
GROWTH_BYTES_MAX = 32 << 20
PAGE_BYTES = 4096


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def frames_of(data: bytes) -> list[bytes]:
    """Cut a stream of bytes into frames as a connection does, as far as it can."""
    found = []
    while len(data) >= 4:
        (size,) = struct.unpack_from(">i", data)
        if not 10 <= size <= len(data) - 4:
            break
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found


def refusals_of(frames: Iterable[BadFrame]) -> Counter[str]:
    """Parse everything; returns how often which typed error came."""
    refused: Counter[str] = Counter()
    for bad in frames:
        for frame in frames_of(bad.data):
            try:
                request(frame)
            except PlatformError as error:
                refused[type(error).__name__] += 1
            except BaseException as error:
                error.add_note(str(bad))
                raise
    return refused


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_parsers_survive_bad_frames(seed: int) -> None:
    for codec in (1, 2, 3, 4):
        bomb(codec)
    refusals_of(bad_frames(seed, FRAMES // 10))  # by then all schemas are loaded
    gc.collect()
    before = resident_bytes()
    refused = refusals_of(bad_frames(seed, FRAMES, FRAMES // 10))
    gc.collect()
    assert resident_bytes() - before < GROWTH_BYTES_MAX
    assert refused["MalformedRequest"] > FRAMES // 5
    assert refused["CorruptBatch"] > 0


@pytest.mark.timeout(600)
def test_parsers_survive_requests_cut_and_wrong_in_every_place() -> None:
    refused = refusals_of(sweep(1))
    assert refused["MalformedRequest"] > 10_000


@pytest.mark.parametrize("purpose", PURPOSES)
def test_messages_of_peers_are_read_or_refused(purpose: bytes) -> None:
    taken = Counter[bool]()
    for number in range(6_000):
        of, bad = member_frame(3, number)
        if of == purpose:
            try:
                taken[survives(PARSERS[purpose.decode()], bad.data[4:])] += 1
            except BaseException as error:
                error.add_note(str(bad))
                raise
    assert taken[False] > 500
    assert taken[True] > 50


@pytest.mark.parametrize("name", NAMES)
def test_what_the_fuzzer_has_found_worth_keeping_is_read_or_refused(name: str) -> None:
    parser = PARSERS[name]
    inputs = [file.read_bytes() for file in sorted((CORPUS / name).glob("*.bin"))]
    for example in parser.examples(random_of(1, 0)):
        inputs += [example, example[:1], example[:-1]]
    taken = Counter(survives(parser, data) for data in inputs)
    assert taken[True] > 0
    assert taken[False] > 0


def test_a_frame_is_made_again_from_its_seed_and_number() -> None:
    frames = list(bad_frames(7, 300))
    assert frames == list(bad_frames(7, 300))
    assert frames != list(bad_frames(8, 300))
    assert bad_frame(7, 123) == frames[123]
    assert frames[123].data.hex()[:400] in str(frames[123])


def test_every_key_and_version_is_met() -> None:
    met = {bad.target for bad in bad_frames(1, 2_000)}
    assert met >= {f"{key.name} v{version}" for key, version in EVERY_VERSION}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_grammar_writes_what_the_encoder_writes(seed: int) -> None:
    for place, (key, version) in enumerate(EVERY_VERSION):
        made = marked_request(key, version, random_of(seed, place))
        body = bytes(made.frame[made.body_at :])
        assert body == encode_request(key, version, made.fields), (key, version)


def test_connections_of_grpc_clients_are_read_or_refused() -> None:
    taken: Counter[str] = Counter()
    for bad in grpc_frames(3, 800):
        try:
            was_taken = survives(PARSERS["http2"], bad.data)
        except BaseException as error:
            error.add_note(str(bad))
            raise
        taken[f"{bad.kind} {was_taken}"] += 1
    kinds = {kind.rpartition(" ")[0] for kind in taken}
    assert len(kinds) > 20
    assert taken["grpc call True"] > 10
    assert taken["grpc block False"] > 10
    assert taken["grpc body False"] > 0


def test_messages_of_grpc_clients_are_read_or_refused() -> None:
    taken = Counter(
        survives(PARSERS["protobuf"], bytes((number % 4,)) + wrong_body(random_of(3, number)))
        for number in range(1_000)
    )
    assert taken[False] > 300
    assert taken[True] > 50
