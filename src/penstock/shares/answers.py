"""What members say of the records that they hold: accept, hand back, give up, hold longer.

    accept    held under the number ──► DONE          over already ──► ALREADY
              handed out by an earlier master, which the log does not know,
              and not handed out since ──► DONE       otherwise ──► LAPSED
    release   held ──► FREE, or WAITING for the pause; at the limit it is given up
    reject    held ──► given up
    renew     held ──► held until later, under a new number

A record that is given up is DYING until its copy is confirmed, or DEAD at once where the group has
no dead letters. Receipts name the number of the hand-out; Kafka's acknowledgements name only the
member, which must be the holder.

Source: Kafka `SharePartition.acknowledge`, KIP-932, KIP-1222; RocketMQ `AckMessageProcessor`,
`ChangeInvisibleTimeProcessor`.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from penstock.shares.cells import ACQUIRED, DEAD, DONE, DYING, FREE, HELD, MASK, SHIFT, WAITING
from penstock.shares.config import SharePolicy
from penstock.shares.ledger import Ledger
from penstock.shares.members import NOBODY
from penstock.shares.reading import OFFSET_MAX, RUNS_MAX
from penstock.shares.runs import Run, Runs, joined, length, parts, runs_of
from penstock.shares.share import Share
from penstock.shares.state import (
    NO_PAUSE,
    NONCE_HALF,
    NONCE_MASK,
    Freed,
    Given,
    Renewed,
    Settled,
)
from penstock.shares.ticks import ticks_in
from penstock.shares.updates.compiled import held_first

_HALF = NONCE_HALF
CLAIM_MAX = 10_000
"""Offsets of all claims of one request."""


class Verdict(Enum):
    """What becomes of a claim; of several offsets, the worst."""

    TAKEN = "it is so from now on"
    ALREADY = "it was so before"
    LAPSED = "somebody else may have it, or nobody had"


_TAKEN = Verdict.TAKEN


class Say(Enum):
    """What a member says."""

    ACCEPT = "processed"
    RELEASE = "again, please"
    REJECT = "never again"
    RENEW = "longer, please"
    GAP = "there is no such record"


class Claim(NamedTuple):
    """Offsets [first, end) that a member says to hold."""

    first: int
    end: int
    nonce: int | None = None
    """Number of the hand-out; None: the member is the holder."""


def are_few(claims: Sequence[Claim]) -> bool:
    """Whether claims are such that may be looked at in one turn."""
    are_runs = all(0 <= claim.first < claim.end <= OFFSET_MAX for claim in claims)
    return are_runs and length((claim.first, claim.end) for claim in claims) <= CLAIM_MAX


class Times(NamedTuple):
    """Ticks for what is said."""

    now: int
    due: int = 0
    """To renew: until when."""
    pause_ticks: int | None = None
    """To release: how long; None: as the group's policy says."""


def judge(share: Share, offset: int, nonce: int, visible_end: int) -> Verdict:
    """Return what becomes of accepting a record under a receipt."""
    if offset < share.base:
        return Verdict.ALREADY
    if offset < share.end and _is_held(share, offset, nonce):
        return Verdict.TAKEN
    if not _is_forgiven(share, nonce) or offset >= visible_end:
        is_done = offset < share.end and share.state_of(offset) == DONE
        return Verdict.ALREADY if is_done else Verdict.LAPSED
    if offset >= share.end:
        return Verdict.LAPSED if share.is_ordered else Verdict.TAKEN
    state = share.state_of(offset)
    if state == DONE:
        return Verdict.ALREADY
    return Verdict.TAKEN if _is_unknown(share, offset, nonce) else Verdict.LAPSED


def accept(
    ledger: Ledger, receipts: Sequence[tuple[int, int]], visible_end: int, window_max: int
) -> list[Verdict]:
    """Accept records, each by its offset and the number of its hand-out."""
    share = ledger.share
    taken = held_first(share.chunks, receipts)  # nearly always all, and the fastest
    count = len(taken)
    verdicts = [_TAKEN] * count
    if count == len(receipts):
        ledger.accept(taken)
        return verdicts
    limit = min(visible_end, share.base + window_max)
    for offset, nonce in receipts[count:]:
        verdict = judge(share, offset, nonce, limit)
        if verdict is Verdict.TAKEN:
            taken.append(offset)
        verdicts.append(verdict)
    ledger.accept(taken)
    ledger.close()  # the hand-out of some may be lost, so that nobody holds them
    return verdicts


def say(  # noqa: PLR0917  what a member says of what
    ledger: Ledger,
    what: Say,
    claims: Sequence[Claim],
    member: str,
    times: Times,
    policy: SharePolicy,
) -> tuple[list[Verdict], int]:
    """Do what a member says of its records; return a verdict for each claim, and the new number.

    Only what it holds changes, whatever else a claim names. The number is that of renewed records.
    """
    share = ledger.share
    ledger.close()
    number = share.members.number_of(member)
    verdicts: list[Verdict] = []
    taken: list[int] = []
    for claim in claims:
        held, verdict = _held(share, claim, number, what)
        verdicts.append(verdict)
        taken += held
    runs = runs_of(sorted(set(taken)))
    nonce = 0
    for some in parts(runs, RUNS_MAX):
        nonce = _do(ledger, what, some, times, policy)
    return verdicts, nonce


def hand_back(ledger: Ledger, runs: Runs, times: Times, policy: SharePolicy) -> None:
    """End hand-outs without success: again after a pause, or given up at the limit."""
    share = ledger.share
    over: list[Run] = []
    again: dict[int, list[Run]] = defaultdict(list)
    for chunk, i, j, first in share.pieces(runs):
        counts = chunk.counts[i:j]
        highest = max(counts)
        if highest == min(counts):
            place_runs = [(highest, first, first + j - i)]
        else:
            place_runs = [(count, first + at, first + at + 1) for at, count in enumerate(counts)]
        for count, begin, end in place_runs:
            if policy.deliveries_max and count >= policy.deliveries_max:
                over.append((begin, end))
            else:
                again[_due_again(count, times, policy)].append((begin, end))
    for due, free in again.items():
        for some in parts(joined(free), RUNS_MAX):
            ledger.write(Freed(due, some))
    for some in parts(joined(over), RUNS_MAX):
        give_up(ledger, some, policy)


def give_up(ledger: Ledger, runs: Runs, policy: SharePolicy) -> None:
    """Let records die: after a copy, if the group has dead letters."""
    ledger.write(Given(runs) if policy.has_dead_letters else Settled(DEAD, runs))


def _do(ledger: Ledger, what: Say, runs: Runs, times: Times, policy: SharePolicy) -> int:
    match what:
        case Say.ACCEPT | Say.GAP:
            ledger.write(Settled(DONE, runs))
        case Say.RELEASE:
            hand_back(ledger, runs, times, policy)
        case Say.REJECT:
            give_up(ledger, runs, policy)
        case Say.RENEW:
            nonce = ledger.next_nonce()
            ledger.write(Renewed(nonce, times.due, runs))
            return nonce
    return 0


def _due_again(count: int, times: Times, policy: SharePolicy) -> int:
    """Return the tick at which a record is free that was handed out so often."""
    ticks = times.pause_ticks
    if ticks is None:
        pauses = policy.pauses_ms
        ticks = ticks_in(pauses[min(count, len(pauses)) - 1]) if pauses else 0
    return times.now + ticks if ticks > 0 else NO_PAUSE


_OVER_BY: dict[Say, Callable[[int], bool]] = {
    Say.ACCEPT: lambda state: state == DONE,
    Say.GAP: lambda state: state == DONE,
    Say.RELEASE: lambda state: state in {FREE, WAITING, HELD},
    Say.REJECT: lambda state: state in {DYING, DEAD},
    Say.RENEW: lambda _: False,
}
"""Whether a record that its last holder does not hold any more became what is said again."""


def _held(share: Share, claim: Claim, number: int, what: Say) -> tuple[list[int], Verdict]:
    """Return the offsets of a claim that are held, and the verdict on all of them."""
    first, end, nonce = claim
    held: list[int] = []
    worst = Verdict.TAKEN
    if first < share.base:
        is_over = what in {Say.ACCEPT, Say.GAP}
        worst = Verdict.ALREADY if is_over else Verdict.LAPSED
    if end > share.end:
        worst = Verdict.LAPSED
    inside = (max(first, share.base), min(end, share.end))
    for chunk, i, j, begin in share.pieces([inside] if inside[0] < inside[1] else []):
        for place in range(i, j):
            state, member = chunk.states[place], chunk.members[place]
            is_last = chunk.nonces[place] == nonce if nonce is not None else member == number
            if state == ACQUIRED and is_last and (nonce is not None or number != NOBODY):
                held.append(begin + place - i)
            elif is_last and _OVER_BY[what](state):
                worst = Verdict.ALREADY if worst is Verdict.TAKEN else worst
            else:
                worst = Verdict.LAPSED
    return held, worst


def _is_held(share: Share, offset: int, nonce: int) -> bool:
    chunk, place = share.chunks[offset >> SHIFT], offset & MASK
    return chunk.states[place] == ACQUIRED and chunk.nonces[place] == nonce


def _is_forgiven(share: Share, nonce: int) -> bool:
    """Whether a number is of an earlier mastership, and none that a reset has made void."""
    before = (share.tenure[1] - nonce) & NONCE_MASK
    since = (nonce - share.forgiven_from) & NONCE_MASK
    return 0 < before <= _HALF and since < _HALF


def _is_unknown(share: Share, offset: int, nonce: int) -> bool:
    """Whether a hand-out was lost: the log has none under the number, and no later one."""
    chunk, place = share.chunks[offset >> SHIFT], offset & MASK
    if chunk.states[place] in {DYING, DEAD}:
        return False
    last = chunk.nonces[place]
    if not chunk.counts[place]:
        return True
    return not share.is_of_this_tenure(last) and 0 < (nonce - last) & NONCE_MASK < _HALF
