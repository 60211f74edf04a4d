"""Header blocks: decoded as the hpack package encodes them, and encoded so that it decodes them."""

import hpack
import pytest
from hpack.table import HeaderTable
from hypothesis import given
from hypothesis import strategies as st

from penstock.http2.errors import ConnectionFault, TooMuch
from penstock.http2.hpack import STATIC, TABLE_BYTES_MAX, HeaderDecoder, encode_headers
from penstock.http2.huffman import decode_huffman

NAMES = st.one_of(st.sampled_from([name for name, _ in STATIC]), st.binary(min_size=1, max_size=40))
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=300)), max_size=12)
SENSITIVE = st.booleans()


def test_the_static_table_is_that_of_the_standard() -> None:
    assert STATIC == HeaderTable.STATIC_TABLE


@given(
    st.lists(
        st.tuples(HEADERS, st.booleans(), st.one_of(st.none(), st.integers(0, TABLE_BYTES_MAX))),
        max_size=12,
    ),
    SENSITIVE,
)
def test_blocks_of_one_connection_are_read_as_they_were_written(blocks, is_sensitive) -> None:
    encoder = hpack.Encoder()
    decoder = HeaderDecoder(1 << 20)
    for headers, is_huffman, size in blocks:
        if size is not None:
            encoder.header_table_size = size
        kind = hpack.NeverIndexedHeaderTuple if is_sensitive else hpack.HeaderTuple
        block = encoder.encode([kind(*one) for one in headers], huffman=is_huffman)
        assert decoder.decode(block) == headers


@given(HEADERS)
def test_answers_are_read_by_others_as_they_were_meant(headers) -> None:
    read = hpack.Decoder(max_header_list_size=1 << 20).decode(encode_headers(headers), raw=True)
    assert [(bytes(name), bytes(value)) for name, value in read] == headers


@given(st.binary(max_size=200))
def test_any_bytes_are_headers_as_for_others_or_a_fault(data) -> None:
    try:
        ours = HeaderDecoder(1 << 20).decode(data)
    except ConnectionFault:
        ours = None
    other = hpack.Decoder(max_header_list_size=1 << 20)
    other.max_allowed_table_size = TABLE_BYTES_MAX
    try:
        theirs = [(bytes(n), bytes(v)) for n, v in other.decode(data, raw=True)]
    except (hpack.HPACKError, IndexError):
        theirs = None
    if ours is not None and theirs is not None:
        assert ours == theirs
    if ours is not None:
        assert theirs is not None, "what others refuse is refused"


@given(st.binary(max_size=64))
def test_huffman_strings_are_read_as_others_read_them(data) -> None:
    try:
        theirs = hpack.huffman_table.decode_huffman(data)
    except hpack.HPACKDecodingError:
        theirs = None
    try:
        ours = decode_huffman(data)
    except ConnectionFault:
        ours = None
    assert ours == theirs


def test_a_string_that_is_padded_with_more_than_a_byte_or_with_zeros_is_refused() -> None:
    assert decode_huffman(bytes.fromhex("1f")) == b"a"
    for bad in ("1fff", "18", "ffffffff"):
        with pytest.raises(ConnectionFault):
            decode_huffman(bytes.fromhex(bad))


def test_a_block_that_refers_to_one_large_header_again_and_again_is_refused() -> None:
    decoder = HeaderDecoder(16_384)
    first = hpack.Encoder().encode([(b"x", b"v" * 3_000)], huffman=False)
    assert decoder.decode(first) == [(b"x", b"v" * 3_000)]
    with pytest.raises(TooMuch):
        decoder.decode(b"\xbe" * 4_000)


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # index 0
        b"\xbe",  # beyond the table
        b"\x3f\xe2\x1f",  # a table of 4,097 bytes
        b"\x20\x20\x20",  # three changes
        b"\x82\x20",  # a change behind a header
        b"\x7f\xff\xff\xff\xff\xff\x0f",  # a number beyond all bounds
        b"\x40\x85ab",  # a string that is cut off
        b"\x40",
    ],
)
def test_blocks_that_no_encoder_makes_are_faults(block) -> None:
    with pytest.raises(ConnectionFault):
        HeaderDecoder(16_384).decode(block)


def test_a_smaller_table_forgets_the_oldest_headers() -> None:
    decoder = HeaderDecoder(16_384)
    encoder = hpack.Encoder()
    decoder.decode(encoder.encode([(b"old", b"1"), (b"new", b"2")]))
    encoder.header_table_size = 40
    assert decoder.decode(encoder.encode([(b"new", b"2")])) == [(b"new", b"2")]
    with pytest.raises(ConnectionFault):
        decoder.decode(b"\xbf")
