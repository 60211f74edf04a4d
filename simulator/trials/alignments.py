"""Tests alignment on pairs of logs that occur rarely in runs.

    one history of masterships ─► two logs of it, each cut, continued, without its oldest part
        ─► align ─► checked by the mastership of each byte

Look-ups of the ends of masterships are tested too, for known and unknown epochs.

Source: docs/adr/0064; the table in replication/alignment.py, KIP-101.
"""

from collections.abc import Iterator
from random import Random

from penstock.base.ids import LeaderEpoch, Position
from penstock.replication.alignment import (
    Alignment,
    Continue,
    Install,
    LogShape,
    StartAnew,
    Stop,
    Truncate,
    align,
)
from penstock.replication.epochs import EpochHistory, EpochStart
from simulator.trials.stand_ins import common_end

MASTERSHIPS_MAX = 4
PLACES = (0, 0, 100, 200, 250, 300)

History = list[tuple[int, int]]


def wrong_alignments(draw: Random, count: int) -> Iterator[str]:
    """Try so many pairs; yield what is wrong with the first that something is wrong with."""
    for _ in range(count):
        slave, master = _two_logs(draw)
        may_cut = draw.random() < 0.3
        outcome = align(slave, master, may_cut_confirmed=may_cut)
        wrong = list(_wrong(slave, master, outcome, may_cut=may_cut))
        wrong += _wrong_ends(slave, draw)
        if wrong:
            yield f"{wrong[0]}: {slave} beside {master}, may cut: {may_cut}, {outcome}"
            return


def _two_logs(draw: Random) -> tuple[LogShape, LogShape]:
    history: History = [(1, 0)]
    for _ in range(draw.randrange(MASTERSHIPS_MAX)):
        epoch, start = history[-1]
        history.append((epoch + draw.choice((1, 2)), start + draw.choice((8, 100))))
    end = history[-1][1] + draw.choice((8, 100))
    return _one_log(history, end, draw), _one_log(history, end, draw)


def _one_log(history: History, end: int, draw: Random) -> LogShape:
    """Return a log of that history, or of another one from some place on."""
    kept_to = draw.choice((end, end, draw.randint(0, end), min(end, draw.choice(PLACES))))
    own = [one for one in history if one[1] < kept_to]
    if draw.random() < 0.5:  # masterships of its own, maybe with a number that others have, too
        epoch = own[-1][0] if own else 0
        own.append((epoch + draw.choice((1, 1, 2, 3)), kept_to))
        kept_to += draw.choice((8, 60))
    start = min(kept_to, draw.choice(PLACES))
    if draw.random() < 0.1:
        start = kept_to
    edges = [*(at for _, at in own[1:]), kept_to]
    kept = [one for one, edge in zip(own, edges, strict=False) if edge > start]
    epochs = tuple(EpochStart(LeaderEpoch(epoch), Position(at)) for epoch, at in kept)
    confirmed = draw.choice((0, 0, start, draw.randint(start, kept_to)))
    return LogShape(epochs, Position(start), Position(kept_to), Position(confirmed))


def _wrong(
    slave: LogShape, master: LogShape, outcome: Alignment, *, may_cut: bool
) -> Iterator[str]:
    equal = equal_to(slave, master)
    loses = slave.confirm_position > _may_have_had(master, equal) and not slave.is_empty
    match outcome:
        case Continue(position):
            yield from _wrong_place(slave, master, position, equal)
        case Truncate(position, _):
            yield from _wrong_cut(slave, master, position, equal)
        case Install() | StartAnew():
            is_kept = slave.start_position < equal and master.start_position <= equal
            if is_kept and not slave.is_empty:
                yield f"throws away what is equal up to {equal}"
            if isinstance(outcome, StartAnew) and master.start_position > 0:
                yield "starts anew, and its master has the beginning no more"
        case Stop():
            if may_cut or not loses:
                yield f"stops, and loses nothing: equal up to {equal}"
    throws_away = not isinstance(outcome, Stop | Continue)
    if throws_away and loses and not may_cut:
        yield f"loses what is confirmed, equal up to {equal}"


def _may_have_had(master: LogShape, equal: int) -> int:
    """Return up to where all that is confirmed may have been in the master's log.

    Its retention deletes nothing else than that. Who wrote what lay below its oldest mastership it
    does not know any more.
    """
    if equal >= 0:
        return equal
    return min([master.start_position, *(one.start_position for one in master.epochs[:1])])


def _wrong_place(slave: LogShape, master: LogShape, position: int, equal: int) -> Iterator[str]:
    if position != slave.end_position or (equal < position and not slave.is_empty):
        yield f"goes on at {position}, and is equal up to {equal}"
    if not master.start_position <= position <= master.end_position:
        yield f"goes on at {position}, where the master has nothing"


def _wrong_cut(slave: LogShape, master: LogShape, position: int, equal: int) -> Iterator[str]:
    if position != equal or not slave.start_position < position < slave.end_position:
        yield f"cuts to {position}, and is equal up to {equal}"
    if position < master.start_position:
        yield f"cuts to {position}, where the master has nothing any more"


def equal_to(slave: LogShape, master: LogShape) -> int:
    """Return up to where they are equal; -1 where they have no byte's owner in common.

    An epoch has one master: where both have a mastership that begins at the same place, all
    before it is equal as well.
    """
    if not {*slave.epochs} & {*master.epochs}:
        return -1
    first = max(one.start_position for one in ({*slave.epochs} & {*master.epochs}))
    return max(first, common_end(_from(slave, first), _from(master, first)))


def _from(shape: LogShape, position: int) -> LogShape:
    """Return a log as if all before that place were the same everywhere."""
    epochs = tuple(epoch for epoch in shape.epochs if epoch.start_position >= position)
    return shape._replace(epochs=epochs, start_position=Position(0))


def _wrong_ends(shape: LogShape, draw: Random) -> Iterator[str]:
    """Check the answers about the ends of masterships."""
    asked = LeaderEpoch(draw.randint(0, 12))
    found = EpochHistory(shape.epochs).end_of(asked, shape.end_position)
    known = [one.leader_epoch for one in shape.epochs]
    if not known or asked > known[-1] or asked < known[0]:
        expected = None
    else:
        epoch = max(one for one in known if one <= asked)
        later = [one.start_position for one in shape.epochs if one.leader_epoch > epoch]
        expected = EpochStart(epoch, min(later, default=shape.end_position))
    if found != expected:
        yield f"epoch {asked} ends at {found}, and not {expected}"
