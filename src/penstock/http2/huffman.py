"""The Huffman code of header strings.

The code is canonical: codes of one length are consecutive, in the order of their symbols, and begin
where the shorter ones end. So lengths say all of it. Decoding takes four bits at a time.

Source: RFC 7541, section 5.2 and appendix B. Symbol 256 is EOS, which must not occur in a string;
its first bits fill the last byte.
"""

from typing import Final, NamedTuple

from penstock.http2.codes import ErrorCode
from penstock.http2.errors import ConnectionFault

_EOS: Final = 256
_LENGTHS: Final = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b0806"
    "06060505050606060606060607080f060c0a0d06070707070707070707070707070707070707070707070807080d"
    "130d0e060f05060506050606060507070606060506070605050607070707070f0b0e0d1c14161414161616171617"
    "17171717181718181617181717171715161716171718161514161617171517161618151617171515161517161717"
    "14161616171616171a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b141814151615"
    "15171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
assert len(_LENGTHS) == _EOS + 1


class _Step(NamedTuple):
    """What four bits lead to."""

    state: int
    """The next state; -1 after EOS."""
    symbol: bytes
    """The symbol that has become whole, or nothing: no code is shorter than five bits."""


def _codes() -> list[int]:
    """Return the codes of all symbols, in order."""
    codes = [0] * len(_LENGTHS)
    code = length = 0
    for bits, symbol in sorted((bits, symbol) for symbol, bits in enumerate(_LENGTHS)):
        code <<= bits - length
        codes[symbol], length = code, bits
        code += 1
    return codes


def _tree() -> list[list[int]]:
    """Return a node for each beginning of a code: where 0 and 1 lead, to -1 - symbol or a node."""
    nodes = [[0, 0]]
    for symbol, code in enumerate(_codes()):
        at = 0
        for shift in range(_LENGTHS[symbol] - 1, 0, -1):
            bit = code >> shift & 1
            if not nodes[at][bit]:
                nodes[at][bit] = len(nodes)
                nodes.append([0, 0])
            at = nodes[at][bit]
        nodes[at][code & 1] = -1 - symbol
    return nodes


def _step(nodes: list[list[int]], state: int, nibble: int) -> _Step:
    symbol = b""
    for shift in (3, 2, 1, 0):
        to = nodes[state][nibble >> shift & 1]
        if to == -1 - _EOS:
            return _Step(-1, b"")
        if to < 0:
            symbol = bytes((-1 - to,))
            to = 0
        state = to
    return _Step(state, symbol)


def _ends(nodes: list[list[int]]) -> frozenset[int]:
    """Return the states in which a string may end: at a symbol, or up to seven bits 1 behind it."""
    ends, at = [0], 0
    for _ in range(7):
        at = nodes[at][1]
        ends.append(at)
    return frozenset(ends)


_NODES: Final = _tree()
_STEPS: Final = [[_step(_NODES, state, n) for n in range(16)] for state in range(len(_NODES))]
_ENDS: Final = _ends(_NODES)


def decode_huffman(data: bytes) -> bytes:
    """Return the string. Raises ConnectionFault."""
    state = 0
    symbols: list[bytes] = []
    for byte in data:
        state, symbol = _STEPS[state][byte >> 4]
        if symbol:
            symbols.append(symbol)
        if state < 0:
            break
        state, symbol = _STEPS[state][byte & 15]
        if symbol:
            symbols.append(symbol)
        if state < 0:
            break
    if state not in _ENDS:
        raise ConnectionFault(ErrorCode.COMPRESSION_ERROR, "a header string that ends badly")
    return b"".join(symbols)
