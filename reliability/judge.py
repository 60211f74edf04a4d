"""How fast the judge of logs is: messages per second, with every kind of check at work.

`python -m reliability judge [--quick]`. A message is one record that was sent once and read twice
(by a reader that went along, and once more in the end), as in the fault trials. The histories are
faultless, which is the slow case for a judge: nothing ends a check early. "everything" adds keys,
batches, producer epochs, contents, told ends of the log and group positions. CPU time is counted.
"""

import gc
import random
import time

from harness.results import Row, publish
from penstock.cli.exit_codes import end_with
from reliability import RESULTS
from simulator.history import Commit, History, Outcome, Poll, Report, Rules, Send, judge

GOAL = "100,000 messages per second"
PARTITIONS, PRODUCERS, POLL_RECORDS = 3, 4, 100
STEP_NS = 1000
LATENCY_NS = 2_000_000
BATCH_RECORDS = 10


def run(*, quick: bool = False) -> None:
    """Judge histories of growing length, plain ones and such with everything."""
    lengths = (30_000,) if quick else (100_000, 300_000, 1_000_000)
    rows = [_measure(length, has_everything=each) for length in lengths for each in (False, True)]
    publish(RESULTS, "judge", rows, goal=GOAL)


def _measure(messages: int, *, has_everything: bool) -> Row:
    history = made_history(messages, has_everything=has_everything)
    rules = Rules(final_reader="final", stale_ns_max=0, lag_ns_max=10**10)
    gc.collect()
    begun = time.thread_time()
    report: Report = judge(history, rules)
    seconds = time.thread_time() - begun
    assert report.is_clean(), report.findings[:3]
    assert report.read == messages, f"{report.read} of {messages} were read"
    return {
        "history": "everything" if has_everything else "sends and polls",
        "messages": messages,
        "CPU s": round(seconds, 2),
        "messages/s": round(messages / seconds),
        "findings": len(report.findings),
    }


def made_history(messages: int, *, has_everything: bool, seed: int = 1) -> History:
    """Return a faultless history; producers take turns, batches of them stay together."""
    chooser = random.Random(seed)
    ends = [0] * PARTITIONS
    sends: list[Send] = []
    while len(sends) < messages:
        partition, producer = chooser.randrange(PARTITIONS), chooser.randrange(PRODUCERS)
        for _ in range(min(BATCH_RECORDS, messages - len(sends))):
            at = len(sends)
            start_ns = at * STEP_NS
            send = Send(
                f"p{producer}-{partition}",
                partition,
                f"p{producer}-{at}",
                start_ns,
                start_ns + LATENCY_NS,
                Outcome.ACKED,
                ends[partition],
            )
            ends[partition] += 1
            sends.append(_with_everything(send, at) if has_everything else send)
    polls = [
        poll
        for partition in range(PARTITIONS)
        for poll in _polls([one for one in sends if one.partition == partition], has_everything)
    ]
    commits = [
        Commit("group", poll.partition, poll.records[-1][0] + 1, poll.end_ns, poll.end_ns + 1)
        for poll in polls
        if has_everything and poll.consumer == "along"
    ]
    return History(sends, polls, commits)


def _with_everything(send: Send, at: int) -> Send:
    return send._replace(
        key=send.producer,
        batch=at // BATCH_RECORDS,
        producer_epoch=at // 100_000,
        content=(at, hash(send.value)),
    )


def _polls(sends: list[Send], has_everything: bool) -> list[Poll]:
    """Read everything along, and once more in the end."""
    polls = []
    last_ns = sends[-1].start_ns + 2 * LATENCY_NS
    for first in range(0, len(sends), POLL_RECORDS):
        part = sends[first : first + POLL_RECORDS]
        records = [(send.offset or 0, send.value) for send in part]
        along_ns = part[-1].start_ns + LATENCY_NS
        along = Poll("along", part[0].partition, records, along_ns, along_ns + STEP_NS)
        final_ns = last_ns + first
        final = Poll("final", part[0].partition, records, final_ns, final_ns + STEP_NS)
        if has_everything:
            contents = [send.content for send in part if send.content is not None]
            end = max(one.offset or 0 for one in part) + 1
            along = along._replace(contents=contents, end_offset=end + LATENCY_NS // STEP_NS)
            final = final._replace(contents=contents, end_offset=len(sends) + 10**6)
        polls += [along, final]
    return polls


if __name__ == "__main__":
    end_with(run)
