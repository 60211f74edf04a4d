"""Messages that are encoded by hand, as protobuf's own class reads them."""

from base64 import urlsafe_b64encode
from types import SimpleNamespace
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from rocketmq.grpc_protocol import service_pb2 as service

from penstock.grpc.consuming.delivered import Told, encoded_messages
from penstock.grpc.consuming.receipts import read_receipt, write_receipt
from penstock.grpc.consuming.times import TIME_MS_MAX
from penstock.record.read import DecodedRecord
from penstock.remoting.errors import BadReceipt
from penstock.remoting.mapping import Mapped
from penstock.remoting.pop.popping import Part, Popped
from penstock.remoting.pop.receipts import nonce_of
from penstock.remoting.pop.records import Seen
from penstock.remoting.wire.message import Host
from penstock.shares.state import ShareKey

TEXTS = st.text(max_size=200)
KEY = ShareKey("rmq.pop.g", bytes(16), 3)


@example(body=b"", users={}, system={}, numbers=(0, TIME_MS_MAX + 1, 1, 0, 0))
@given(
    body=st.binary(max_size=300),
    users=st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), TEXTS, max_size=4),
    system=st.dictionaries(st.sampled_from(["TAGS", "UNIQ_KEY", "TRACE_CONTEXT"]), TEXTS),
    numbers=st.tuples(
        st.integers(0, (1 << 63) - 1),
        st.integers(-1, (1 << 48)),
        st.integers(1, 250),
        st.integers(0, (1 << 32) - 1),
        st.integers(0, 1 << 40),
    ),
)
def test_a_message_is_read_by_protobuf_as_it_was_meant(body, users, system, numbers) -> None:
    offset, born_ms, count, nonce, invisible_ms = numbers
    properties = {"KEYS": "a  b", "PGROUP": "hidden", **users, **system}
    mapped = Mapped(body, properties, 0, born_ms, Host(bytes(4), 80), 2)
    seen = Seen(DecodedRecord(offset, 5_007, None, None, ()), mapped=mapped)
    hosted: Any = SimpleNamespace(partition=3)
    popped = Popped(Part(hosted, KEY, 3), nonce, [(seen, count)], 0)
    (data,) = encoded_messages(popped, Told("topic", "h:1", invisible_ms))
    response = service.ReceiveMessageResponse.FromString(data)
    got, own = response.message, response.message.system_properties
    assert (got.topic.name, got.body, dict(got.user_properties)) == ("topic", body, users)
    assert (own.queue_id, own.queue_offset, own.delivery_attempt) == (3, offset, count + 2)
    assert own.HasField("tag") == ("TAGS" in system)
    assert own.tag == system.get("TAGS", "")
    assert own.message_id == system.get("UNIQ_KEY", "")
    assert own.trace_context == system.get("TRACE_CONTEXT", "")
    assert list(own.keys) == ["a", "b"]
    assert (own.born_host, own.store_host) == ("0.0.0.0:80", "h:1")
    assert own.born_timestamp.ToMilliseconds() == min(born_ms, TIME_MS_MAX)
    assert own.store_timestamp.ToMilliseconds() == 5_007
    assert own.invisible_duration.ToMilliseconds() == invisible_ms
    receipt = read_receipt(own.receipt_handle)
    assert (receipt.partition, receipt.offset) == (3, offset)
    assert nonce_of(KEY, receipt.number) == nonce


@given(st.binary(max_size=40), st.text(max_size=30))
def test_a_receipt_is_one_that_was_written_or_is_refused(data: bytes, text: str) -> None:
    for one in (text, urlsafe_b64encode(data).decode()):
        try:
            receipt = read_receipt(one)
        except BadReceipt:
            continue
        assert read_receipt(write_receipt(*receipt).decode()) == receipt
        assert receipt.offset < 1 << 63
