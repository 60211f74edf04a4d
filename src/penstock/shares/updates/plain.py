"""What every accepted record goes through: its run, its cell, its bytes. In Python.

The compiled twins are in `_updates.pyx` and `_hand_out.pyx`; `compiled.py` chooses.

Source: docs/formats/share-state.md for the bytes.
"""

from collections.abc import Mapping, Sequence

from penstock.coordinator import wire
from penstock.shares.cells import ACQUIRED, MASK, SHIFT, Chunk
from penstock.shares.config import SharePolicy
from penstock.shares.runs import Run, Runs
from penstock.shares.updates.handed import HandOut, Wanted

VERSION = 1


def with_runs(seq: int, kind: int, numbers: tuple[int, ...], runs: Runs) -> bytes:
    """Return the value of an update: its number, its kind, numbers as varints, and runs."""
    out = bytearray((VERSION,))
    out += wire.varint(seq)
    out.append(kind)
    for number in numbers:
        out += wire.varint(number)
    put_runs(out, runs)
    return bytes(out)


def put_runs(out: bytearray, runs: Runs) -> None:
    """Append runs, which ascend."""
    out += wire.varint(len(runs))
    before = 0
    for first, end in runs:  # thousands of them: no call for each number
        assert before <= first < end, (first, end)
        number = first - before
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
        number = end - first
        while number >= 0x80:
            out.append(number & 0x7F | 0x80)
            number >>= 7
        out.append(number)
        before = end


def held_first(chunks: Mapping[int, Chunk], receipts: Sequence[tuple[int, int]]) -> list[int]:
    """Return the offsets of the first receipts, up to one of a record that is not held under it.

    A receipt is an offset and the number of a hand-out.
    """
    found: list[int] = []
    for offset, nonce in receipts:
        chunk, place = chunks.get(offset >> SHIFT), offset & MASK
        if chunk is None or chunk.states[place] != ACQUIRED or chunk.nonces[place] != nonce:
            break
        found.append(offset)
    return found


def settle_lone(
    chunks: Mapping[int, Chunk], in_flight: list[int], runs: Runs, state: int
) -> tuple[list[Run], int]:
    """Settle held records that are runs of one, the usual case, and count them out.

    `in_flight` is by the member's number. Returns the other runs, and how many were settled.
    """
    left: list[Run] = []
    count = 0
    for run in runs:
        first, end = run
        if end - first == 1:
            chunk, place = chunks[first >> SHIFT], first & MASK
            if chunk.states[place] == ACQUIRED:
                chunk.states[place] = state
                in_flight[chunk.members[place]] -= 1
                count += 1
                continue
        left.append(run)
    return left, count


def hand_out_new(ledger: object, wanted: Wanted, due: int, policy: SharePolicy) -> HandOut | None:
    """Return the usual hand-out, of new records alone; None, and nothing is changed, otherwise.

    In Python that is never done: it would be a second `hand_out.hand_out_any`.
    """
    return None
