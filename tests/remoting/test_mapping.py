"""Records as messages and messages as records, in both directions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.record.build import Record
from penstock.remoting.errors import IllegalMessage
from penstock.remoting.mapping import Mapped, to_message, to_record
from penstock.remoting.system_names import HEADER_OF, KEPT, NOT_KEPT, PREFIX
from penstock.remoting.wire.message import NO_HOST, Host
from penstock.remoting.wire.properties import (
    PROPERTIES_BYTES_MAX,
    can_be_told,
    read_properties,
    write_properties,
)

ID = "DERIVED"
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20).filter(can_be_told)
SYSTEM = sorted(KEPT | NOT_KEPT | HEADER_OF.keys() | {"__SHARDINGKEY"})
USER = TEXT.filter(
    lambda one: not one.startswith((PREFIX, "__RMQ.TRANSIENT.")) and one not in SYSTEM
)
HOSTS = st.builds(Host, st.binary(min_size=4, max_size=4), st.integers(0, 65535)) | st.builds(
    Host, st.binary(min_size=16, max_size=16), st.integers(0, 65535)
)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
SENT = st.builds(
    Mapped,
    body=st.binary(min_size=1, max_size=40),
    properties=st.dictionaries(
        USER | st.sampled_from(SYSTEM), TEXT | st.just("g" * 64) | st.just("ü" * 32), max_size=8
    ),
    flag=INT32,
    born_ms=st.integers(0, 1 << 60),
    born_host=HOSTS,
    reconsume_times=st.integers(0, 1000),
)
HEADERS = st.tuples(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
    | st.sampled_from(["rmq.tag", "rmq.keys", "rmq.bh", "rmq.flag", "rmq.times", "rmq.id", "TAGS"]),
    st.none() | st.binary(max_size=20) | st.sampled_from([b"1.2.3.4 5", b"7", b"9" * 30, b"x\x02"]),
)
RECORDS = st.builds(
    Record,
    key=st.none() | st.binary(max_size=70) | TEXT.map(str.encode),
    value=st.none() | st.binary(max_size=40),
    headers=st.lists(HEADERS, max_size=8).map(tuple),
    timestamp_ms=st.integers(0, 1 << 60),
)


@given(SENT)
def test_a_message_comes_back_as_it_was_sent(sent: Mapped) -> None:
    back = to_message(to_record(sent), ID)
    properties = {name: value for name, value in sent.properties.items() if name not in NOT_KEPT}
    properties.setdefault("UNIQ_KEY", ID)
    assert back == sent._replace(properties=properties)


@given(RECORDS)
def test_any_record_is_a_message_that_every_client_reads(record: Record) -> None:
    shown = to_message(record, ID)
    assert shown.body == (record.value or b"")
    assert shown.born_ms == record.timestamp_ms
    assert ("KAFKA_NULL" in shown.properties) is (record.value is None)
    text = write_properties(shown.properties)
    assert read_properties(text) == shown.properties
    assert len(text.encode()) <= PROPERTIES_BYTES_MAX
    assert all(map(can_be_told, [*shown.properties, *shown.properties.values()]))


def test_kafka_clients_see_a_message_s_parts_as_key_and_headers() -> None:
    properties = {
        "TAGS": "a",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "ID",
        "__SHARDINGKEY": "group",
        "WAIT": "true",
        "PGROUP": "p",
        "colour": "red",
    }
    sent = Mapped(b"body", properties, 5, 1000, Host(bytes((1, 2, 3, 4)), 80), reconsume_times=2)
    assert to_record(sent) == Record(
        b"group",
        b"body",
        (
            ("rmq.tag", b"a"),
            ("rmq.keys", b"k1 k2"),
            ("rmq.id", b"ID"),
            ("rmq.PGROUP", b"p"),
            ("colour", b"red"),
            ("rmq.bh", b"1.2.3.4 80"),
            ("rmq.flag", b"5"),
            ("rmq.times", b"2"),
        ),
        1000,
    )


def test_rocketmq_clients_see_a_kafka_record_s_key_as_keys_and_group() -> None:
    record = Record(b"k 1", b"v", (("colour", b"red"), ("colour", b"blue"), ("TAGS", b"x")), 7)
    assert to_message(record, ID) == Mapped(
        b"v",
        {"__SHARDINGKEY": "k 1", "KEYS": "k 1", "UNIQ_KEY": ID, "colour": "red"},
        born_ms=7,
        born_host=NO_HOST,
    )


def test_a_message_s_group_is_not_its_keys() -> None:
    sent = Mapped(b"b", {"__SHARDINGKEY": "group", "UNIQ_KEY": "1"})
    assert "KEYS" not in to_message(to_record(sent), ID).properties


@pytest.mark.parametrize(
    ("group", "is_key"), [("g" * 63, True), ("g" * 64, False), ("ü" * 32, False)]
)
def test_a_long_group_is_a_header(group: str, is_key: bool) -> None:
    record = to_record(Mapped(b"b", {"__SHARDINGKEY": group}))
    assert (record.key == group.encode()) is is_key
    assert (("rmq.group", group.encode()) in record.headers) is not is_key


@pytest.mark.parametrize("key", [b"\xff", b"a\nb", b"\x02", b""])
def test_a_key_that_is_not_printable_is_not_keys(key: bytes) -> None:
    assert "KEYS" not in to_message(Record(key, b"v"), ID).properties


def test_a_tombstone_is_an_empty_body_with_a_property() -> None:
    gone, empty = (to_message(Record(b"k", value), ID) for value in (None, b""))
    assert (gone.body, gone.properties["KAFKA_NULL"]) == (b"", "1")
    assert (empty.body, "KAFKA_NULL" in empty.properties) == (b"", False)


@pytest.mark.parametrize("value", [b"\xff", b"a\x01b", b"a\x02b"])
def test_headers_that_are_no_text_are_shown_in_base64(value: bytes) -> None:
    shown = to_message(Record(None, b"v", (("h", value), ("n", None), ("e", b""))), ID)
    assert list(shown.properties) == ["UNIQ_KEY", "h.b64"]


def test_properties_that_do_not_fit_are_left_out_and_counted() -> None:
    headers = (("a", b"x" * 20_000), ("b", b"y" * 20_000), ("c", b"z"), ("d", b"w" * 40_000))
    shown = to_message(Record(None, b"v", headers), ID).properties
    assert list(shown) == ["UNIQ_KEY", "a", "c", "KAFKA_LEFT_OUT"]
    assert shown["KAFKA_LEFT_OUT"] == "2"


def test_names_of_the_front_are_refused() -> None:
    with pytest.raises(IllegalMessage, match=r"rmq\."):
        to_record(Mapped(b"b", {"rmq.tag": "mine"}))


def test_an_empty_body_is_refused() -> None:
    with pytest.raises(IllegalMessage, match="empty"):
        to_record(Mapped(b"", {}))


def test_what_belongs_to_sending_is_not_kept() -> None:
    sent = Mapped(b"b", dict.fromkeys([*NOT_KEPT, "__RMQ.TRANSIENT.X"], "1"))
    assert [name for name, _ in to_record(sent).headers] == ["rmq.bh"]
