"""Messages of pulls, bodies of batches, properties."""

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.remoting.errors import MalformedBody
from penstock.remoting.ids import (
    NOT_ADDRESSABLE,
    derived_id,
    located,
    locator_of,
    offset_id,
    read_derived_id,
    read_offset_id,
    topic_crc,
)
from penstock.remoting.wire.batch_body import (
    MESSAGES_MAX,
    BatchedMessage,
    decode_batch,
    encode_batch,
)
from penstock.remoting.wire.message import Host, Message, decode_messages, encode_message
from penstock.remoting.wire.properties import (
    PROPERTIES_BYTES_MAX,
    can_be_told,
    read_properties,
    write_consumed,
    write_properties,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
TELLABLE = TEXT.filter(can_be_told)
INT32, INT64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)
HOSTS = st.builds(
    Host,
    st.binary(min_size=4, max_size=4) | st.binary(min_size=16, max_size=16),
    st.integers(0, 65535),
)
MESSAGES = st.builds(
    Message,
    topic=TEXT | st.just("t" * 127) | st.just("t" * 249),
    queue_id=INT32,
    queue_offset=INT64,
    body=st.binary(max_size=50),
    properties=TEXT,
    locator=INT64,
    flag=INT32,
    sys_flag=st.sampled_from((0, 1, 2, 4, 8, 12)),
    born_ms=INT64,
    born_host=HOSTS,
    store_ms=INT64,
    store_host=HOSTS,
    reconsume_times=INT32,
    half_offset=INT64,
)
BATCHED = st.builds(BatchedMessage, INT32, st.binary(max_size=50), TEXT)


@given(st.lists(MESSAGES, max_size=4))
def test_messages_come_back_in_their_order(messages: list[Message]) -> None:
    data = b"".join(map(encode_message, messages))
    assert decode_messages(memoryview(data)) == messages


def test_a_message_is_laid_out_as_rocketmq_s_table_says() -> None:
    message = Message("T", 1, 2, b"body", properties="a\x01b\x02", locator=3, born_ms=4, store_ms=5)
    data = encode_message(message)
    assert len(data) == 91 + 4 + 1 + 4
    assert data[:8].hex() == f"{len(data):08x}daa320a7"
    assert int.from_bytes(data[8:12]) == crc32(b"body") & 0x7FFFFFFF
    assert data[84:88] + data[88:] == b"\0\0\0\x04body\x01T\0\x04a\x01b\x02"


@pytest.mark.parametrize(("length", "magic"), [(127, "daa320a7"), (128, "daa320ab")])
def test_long_topics_have_a_magic_of_their_own(length: int, magic: str) -> None:
    message = Message("t" * length, 0, 0, b"b")
    data = encode_message(message)
    assert data[4:8].hex() == magic
    assert decode_messages(memoryview(data)) == [message]


def test_a_changed_body_is_noticed() -> None:
    data = bytearray(encode_message(Message("t", 0, 0, b"body")))
    data[88] ^= 1
    with pytest.raises(MalformedBody, match="CRC"):
        decode_messages(memoryview(data))


@given(st.lists(MESSAGES, min_size=1, max_size=2), st.data())
def test_damaged_messages_are_messages_or_malformed(
    messages: list[Message], data: st.DataObject
) -> None:
    raw = bytearray(b"".join(map(encode_message, messages)))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = memoryview(raw)[: data.draw(st.integers(0, len(raw)))]
    try:
        decoded = decode_messages(cut)
    except MalformedBody:
        return
    assert len(decoded) <= len(messages)


@given(st.lists(BATCHED, max_size=5))
def test_batches_come_back(messages: list[BatchedMessage]) -> None:
    assert decode_batch(memoryview(encode_batch(messages))) == messages


@given(st.lists(BATCHED, min_size=1, max_size=3), st.data())
def test_damaged_batches_are_batches_or_malformed(
    messages: list[BatchedMessage], data: st.DataObject
) -> None:
    raw = bytearray(encode_batch(messages))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = memoryview(raw)[: data.draw(st.integers(0, len(raw)))]
    try:
        decoded = decode_batch(cut)
    except MalformedBody:
        return
    assert len(encode_batch(decoded)) == len(cut)


def test_a_batch_has_a_largest_number_of_messages() -> None:
    most = encode_batch([BatchedMessage(0, b"", "")] * MESSAGES_MAX)
    assert len(decode_batch(memoryview(most))) == MESSAGES_MAX
    with pytest.raises(MalformedBody, match="more than 10000"):
        decode_batch(memoryview(most + encode_batch([BatchedMessage(0, b"", "")])))


def test_a_batch_s_lengths_have_to_agree() -> None:
    data = bytearray(encode_batch([BatchedMessage(0, b"body", "properties")]))
    data[3] -= 1
    with pytest.raises(MalformedBody, match="do not end their message"):
        decode_batch(memoryview(data))


@given(st.dictionaries(TELLABLE, TELLABLE))
def test_properties_come_back(properties: dict[str, str]) -> None:
    assert read_properties(write_properties(properties)) == properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),
        ("a\x02\x01b\x02c\x01\x02d\x01e\x01f\x02\x02", {"d": "e\x01f"}),
    ],
)
def test_pairs_without_name_or_value_are_skipped(text: str, found: dict[str, str]) -> None:
    assert read_properties(text) == found


@given(st.integers(0, (1 << 22) - 1), st.integers(0, (1 << 40) - 1), st.booleans())
def test_locators_come_back(partition: int, offset: int, is_retry: bool) -> None:
    locator = locator_of(partition, offset, is_retry=is_retry)
    if locator != NOT_ADDRESSABLE:
        assert located(locator) == (partition, offset, is_retry)
        assert 0 <= locator < 1 << 63


@pytest.mark.parametrize("place", [(1 << 22, 0), (0, 1 << 40)])
def test_what_does_not_fit_into_a_locator_is_not_addressable(place: tuple[int, int]) -> None:
    assert locator_of(*place) == NOT_ADDRESSABLE
    assert located(NOT_ADDRESSABLE) is None
    assert located(-1) is None


@given(HOSTS, st.integers(0, (1 << 63) - 1))
def test_offset_ids_come_back(host: Host, locator: int) -> None:
    assert read_offset_id(offset_id(host, locator)) == (host, locator)


def test_an_offset_id_is_what_the_java_client_takes_apart() -> None:
    assert offset_id(Host(bytes((127, 0, 0, 1)), 10911), 255) == "7F00000100002A9F00000000000000FF"


@pytest.mark.parametrize("text", ["", "xy", "00" * 11])
def test_what_is_no_offset_id_is_malformed(text: str) -> None:
    with pytest.raises(MalformedBody):
        read_offset_id(text)


@given(
    st.binary(min_size=16, max_size=16), INT32.filter(lambda one: one >= 0), st.integers(0, 1 << 60)
)
def test_derived_ids_come_back(topic_id: bytes, partition: int, offset: int) -> None:
    derived = derived_id(topic_id, partition, offset)
    assert len(derived) == 32
    assert read_derived_id(derived) == (topic_crc(topic_id), partition, offset)
    assert read_derived_id(derived[:-1]) is None


def test_what_consumers_get_has_a_region_unless_there_is_one_or_no_room() -> None:
    region = {"MSG_REGION": "DefaultRegion"}
    assert read_properties(write_consumed({"TAGS": "a"})) == {"TAGS": "a"} | region
    assert write_consumed({"MSG_REGION": "own"}) == write_properties({"MSG_REGION": "own"})
    room = PROPERTIES_BYTES_MAX - len(write_consumed({}))
    for letters in ("x", "\u00fc"):
        size = len(letters.encode())
        fits = {"a": letters * ((room - 3) // size)}
        assert read_properties(write_consumed(fits)) == fits | region
        beyond = {"a": letters * ((room - 3) // size + 1)}
        assert write_consumed(beyond) == write_properties(beyond)
