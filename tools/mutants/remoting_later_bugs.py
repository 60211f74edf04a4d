"""Bugs of what comes later: delays, what is sent back, dead letters."""

from .mutant import Kind, plant

AREA = "Delays and retries"
DELAYS = ("tests/remoting/test_delays.py",)
RETRIES = ("tests/remoting/test_retries.py",)

MUTANTS = (
    plant(
        "later-a-second-early",
        AREA,
        "a delayed message comes before its time",
        (
            "remoting/later/due.py",
            "            if destination.due_ms > now_ms:\n",
            "            if destination.due_ms > now_ms + 1_000:\n",
        ),
        kind=Kind.RANGE,
        near=DELAYS,
    ),
    plant(
        "later-the-513th-is-skipped",
        AREA,
        "of thousands that are due at once, one of each 513 is never delivered",
        (
            "remoting/later/due.py",
            "size >= BYTES_MAX):\n                return Due(taken, one.offset,",
            "size >= BYTES_MAX):\n                return Due(taken, one.offset + 1,",
        ),
        kind=Kind.RANGE,
        near=DELAYS,
    ),
    plant(
        "later-born-when-delivered",
        AREA,
        "a message that was delayed twice has lost the time of its birth",
        (
            "remoting/later/delayed.py",
            "    if BORN_HEADER not in [name for name, _ in headers]:\n",
            "    if headers is not None:\n",
        ),
        kind=Kind.GUARD,
        near=DELAYS,
    ),
    plant(
        "later-what-is-refused-is-dropped",
        AREA,
        "a delayed message that its topic does not take now is lost",
        (
            "remoting/later/delivery.py",
            "                    self._put_back(source, batch.records)\n",
            "                    assert source\n",
        ),
        kind=Kind.GUARD,
        near=DELAYS,
    ),
    plant(
        "later-unknown-topics-are-deleted-ones",
        AREA,
        "a master that does not know a topic yet drops what was delayed for it",
        (
            "remoting/later/delivery.py",
            "        if topic is None and self._broker.leftovers.is_deleted(TopicId(topic_id)):\n",
            "        if topic is None:\n",
        ),
        kind=Kind.STALE,
        near=DELAYS,
    ),
    plant(
        "later-attempts-are-not-counted",
        AREA,
        "what can not be consumed comes again for ever",
        (
            "remoting/later/retries.py",
            'b"%d" % (failed.times + 1))',
            'b"%d" % failed.times)',
        ),
        kind=Kind.RANGE,
        near=RETRIES,
    ),
    plant(
        "later-where-it-came-from-is-told-anew",
        AREA,
        "a message that comes again names its retry topic as its first one",
        (
            "remoting/later/retries.py",
            "for name, text in headers.items() if name not in names]",
            "for name, text in headers.items() if name]",
        ),
        kind=Kind.STALE,
        near=RETRIES,
    ),
    plant(
        "later-the-first-of-a-batch-comes-again",
        AREA,
        "another message of the batch is sent back than the one that failed",
        (
            "remoting/handlers/at_place.py",
            "    part = Part(int(read.wanted.fetch_offset), 1, 1)\n",
            "    part = Part(0, 1, 1)\n",
        ),
        (
            "remoting/handlers/send_back.py",
            "            if one.offset == offset:\n",
            "            if one.offset <= offset:\n",
        ),
        kind=Kind.RANGE,
        near=RETRIES,
    ),
    plant(
        "later-one-attempt-too-many",
        AREA,
        "a group gets a message once more than it may",
        (
            "remoting/later/retries.py",
            "    if failed.level < 0 or failed.times >= times_max:\n",
            "    if failed.level < 0 or failed.times > times_max:\n",
        ),
        kind=Kind.RANGE,
        near=RETRIES,
    ),
)
