"""Bugs of messages that wait for a time of their own, in levels one after another."""

from .mutant import Kind, plant

AREA = "Times of messages"
TIMES = ("tests/remoting/test_times.py",)
DELAYS = ("tests/grpc/test_delays.py",)

MUTANTS = (
    plant(
        "times-the-level-above-is-near-enough",
        AREA,
        "a message comes minutes after its time",
        (
            "remoting/later/delayed.py",
            "    is_near = longer < LEVEL_MAX and DELAYS_MS[longer] - left_ms <= LATE_MS\n",
            "    is_near = longer < LEVEL_MAX and DELAYS_MS[longer] <= left_ms + 2 * LATE_MS\n",
        ),
        kind=Kind.RANGE,
        near=TIMES,
    ),
    plant(
        "times-a-level-is-all",
        AREA,
        "a message comes at the end of its first level, before its time",
        (
            "remoting/later/due.py",
            "        return self.destination.until_ms > now_ms\n",
            "        return self.destination.until_ms > now_ms + 3_600_000\n",
        ),
        kind=Kind.RANGE,
        near=TIMES,
    ),
    plant(
        "times-are-forgotten-on-the-way",
        AREA,
        "a message that has gone through two levels comes before its time",
        (
            "remoting/later/delivery.py",
            "one.destination.at(due_ms)) for one in part]",
            "one.destination.at(due_ms)._replace(until_ms=0)) for one in part]",
        ),
        kind=Kind.CLEARED,
        near=TIMES,
    ),
    plant(
        "times-anybody-sets-them",
        AREA,
        "a message that comes again waits as long as its producer has written in a header",
        (
            "remoting/later/delayed.py",
            "    headers = [one for one in record.headers if one[0] != UNTIL_HEADER]\n",
            "    headers = list(record.headers)\n",
        ),
        kind=Kind.GUARD,
        near=TIMES,
    ),
    plant(
        "times-levels-that-are-not-there-are-none",
        AREA,
        "a message whose next level its master does not know yet is dropped",
        (
            "remoting/later/delivery.py",
            '                raise NotMaster(f"delay level {level} of the set is not known',
            '                continue\n                raise NotMaster(f"delay level {level} not',
        ),
        kind=Kind.STALE,
        near=TIMES,
    ),
    plant(
        "times-shorter-levels-are-not-made",
        AREA,
        "a message waits for ever for a level that nobody has made",
        (
            "remoting/later/holding.py",
            "lambda _: self._make_places(late, 1))\n",
            "lambda _: self._make_places(late, level_before(left_ms)))\n",
        ),
        kind=Kind.GUARD,
        near=TIMES,
    ),
    plant(
        "times-moved-is-dropped-in-the-count",
        AREA,
        "messages that go on are counted as those of deleted topics",
        (
            "remoting/later/delivery.py",
            "        self.dropped += len(due.records) - delivered - moved - put_back",
            "        self.dropped += len(due.records) - delivered - put_back",
        ),
        kind=Kind.RANGE,
        near=TIMES,
    ),
    plant(
        "grpc-times-are-cut-to-milliseconds-downwards",
        AREA,
        "a message comes up to a millisecond before its time",
        (
            "grpc/producing/delays.py",
            "    ms = told.seconds * 1_000 - (-told.nanos // _NANOS_IN_MS)\n",
            "    ms = told.seconds * 1_000 + told.nanos // _NANOS_IN_MS\n",
        ),
        kind=Kind.RANGE,
        near=DELAYS,
    ),
    plant(
        "grpc-times-have-no-end",
        AREA,
        "a message is taken for a time for which nothing here waits",
        (
            "grpc/producing/delays.py",
            "    if ms - now_ms > most_ms:\n",
            "    if ms - now_ms > 30 * most_ms:\n",
        ),
        kind=Kind.RANGE,
        near=DELAYS,
    ),
)
