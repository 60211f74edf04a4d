"""What time does to a share: hand-outs end, and pauses end; some records at a time.

Source: Kafka `AcquisitionLockTimerTask`; KAFKA-19476 and KAFKA-18084 are its races, which can not
be here: an entry of a timer is only a place to look at, and cells say what is due.
"""

from penstock.shares.answers import Times, hand_back
from penstock.shares.cells import ACQUIRED, WAITING
from penstock.shares.config import SharePolicy
from penstock.shares.ledger import Ledger
from penstock.shares.reading import RUNS_MAX
from penstock.shares.runs import Run, joined, parts
from penstock.shares.share import Share
from penstock.shares.state import NO_PAUSE, Freed

DUE_MAX = 5_000
"""Offsets looked at in one turn: 3 ms."""


def expire(ledger: Ledger, now: int, policy: SharePolicy, count_max: int = DUE_MAX) -> int:
    """End what is due by the tick `now`; return how many offsets were looked at.

    Less than `count_max` means that nothing more is due.
    """
    share = ledger.share
    ledger.close()
    looked = 0
    runs: list[Run] = []
    ended: list[Run] = []
    rested: list[Run] = []
    while looked < count_max:
        run = share.timers.pop_due(now, count_max - looked)
        if run is None:
            break
        looked += run[1] - run[0]
        runs.append(run)
    for run in joined(runs):
        _look(share, run, now, ended, rested)
    if ended:
        hand_back(ledger, joined(ended), Times(now), policy)
    for some in parts(joined(rested), RUNS_MAX):
        ledger.write(Freed(NO_PAUSE, some))
    return looked


def _look(share: Share, run: Run, now: int, ended: list[Run], rested: list[Run]) -> None:
    """Add what of a run is due."""
    first, end = max(run[0], share.base), min(run[1], share.end)
    if first >= end:
        return
    for chunk, i, j, begin in share.pieces([(first, end)]):
        count = j - i
        if chunk.states[i:j].count(ACQUIRED) == count and max(chunk.dues[i:j]) <= now:
            ended.append((begin, begin + count))
            continue
        for place in range(i, j):
            if chunk.dues[place] > now:
                continue
            offset = begin + place - i
            if chunk.states[place] == ACQUIRED:
                ended.append((offset, offset + 1))
            elif chunk.states[place] == WAITING:
                rested.append((offset, offset + 1))
