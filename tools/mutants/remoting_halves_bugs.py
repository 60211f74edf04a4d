"""Bugs of half messages: who decides, how often, and what a new master makes of the log."""

from .mutant import Kind, plant

AREA = "Half messages"
HALVES = ("tests/remoting/test_half_messages.py",)
FAILOVERS = ("tests/remoting/test_half_failovers.py",)

MUTANTS = (
    plant(
        "halves-copies-are-not-looked-for",
        AREA,
        "a committed message is lost with the master that had not written its copy",
        ("remoting/halves/loading.py", "        elif self._last:\n", "        elif False:\n"),
        kind=Kind.GUARD,
        near=FAILOVERS,
    ),
    plant(
        "halves-any-record-is-the-copy",
        AREA,
        "a committed message is lost where another record has got the offset of its copy",
        (
            "remoting/halves/loading.py",
            "if record is None or not is_copy(record, one.decided.number):",
            "if record is None or not is_copy:",
        ),
        kind=Kind.GUARD,
        near=FAILOVERS,
    ),
    plant(
        "halves-settled-is-not-read",
        AREA,
        "a copy that was compacted away is written a second time by the next master",
        (
            "remoting/halves/loading.py",
            "            elif isinstance(event, Settled):\n                self._last = []\n",
            "            elif isinstance(event, Settled):\n                pass\n",
        ),
        kind=Kind.SNAPSHOT,
        near=FAILOVERS,
    ),
    plant(
        "halves-the-last-decision-counts",
        AREA,
        "a producer is told that a message which is there was rolled back",
        (
            "remoting/halves/state.py",
            "        return Verdict.SAME if self._decided[number].outcome is outcome else ",
            "        return Verdict.SAME if self._decided[number].outcome is not None else ",
        ),
        kind=Kind.GUARD,
        near=HALVES,
    ),
    plant(
        "halves-decisions-of-others-are-told",
        AREA,
        "who may not write to a topic is told how its transactions ended",
        (
            "remoting/handlers/end_transaction.py",
            "    _check_topic(context, command, halves.topic_of(place, half_number))\n",
            "    _check_topic(context, command, None)\n",
        ),
        kind=Kind.GUARD,
        near=("tests/node/test_ways_around_groups.py",),
    ),
    plant(
        "halves-two-decisions-of-one-read",
        AREA,
        "of two decisions that come together both are made",
        ("remoting/halves/deciding.py", "        if claimed is None:\n", "        if True:\n"),
        kind=Kind.STALE,
        near=HALVES,
    ),
    plant(
        "halves-checks-are-not-noted",
        AREA,
        "producers are asked for ever, and nothing is discarded",
        (
            "remoting/halves/led.py",
            "                    deciding.note_check(found, due_ms)\n",
            "                    assert deciding\n",
        ),
        kind=Kind.SNAPSHOT,
        near=HALVES,
    ),
    plant(
        "halves-of-any-group",
        AREA,
        "a producer decides the transaction of another group",
        (
            "remoting/handlers/end_transaction.py",
            "    if found is not None and found.half.group != group:\n",
            "    if found is not None and not found.half.group:\n",
        ),
        kind=Kind.GUARD,
        near=HALVES,
    ),
    plant(
        "halves-of-any-id",
        AREA,
        "a decision that names another message counts",
        (
            "remoting/halves/deciding.py",
            "                self._check_id(work, record)\n",
            "                assert record\n",
        ),
        kind=Kind.GUARD,
        near=HALVES,
    ),
    plant(
        "halves-anybody-is-asked",
        AREA,
        "who may not read a topic is sent its messages, as a producer that he calls himself",
        (
            "remoting/halves/checking.py",
            "    return authoriser.permits_all or authoriser.permits(\n",
            "    return not authoriser.permits_all or authoriser.permits(\n",
        ),
        kind=Kind.GUARD,
        near=HALVES,
    ),
    plant(
        "halves-the-log-start-passes-what-comes",
        AREA,
        "a half message that is not confirmed yet is deleted",
        (
            "remoting/halves/led.py",
            "        low = min([low, *self._coming.values()])\n",
            "        low = min([low])\n",
        ),
        kind=Kind.RANGE,
        near=FAILOVERS,
    ),
    plant(
        "halves-unknown-confirmations-are-forgotten",
        AREA,
        "nobody is asked about a half message that is in the log and was answered with an error",
        (
            "remoting/halves/led.py",
            "            self._reload()  # it may be in the log\n",
            "            pass\n",
        ),
        kind=Kind.SNAPSHOT,
        near=FAILOVERS,
    ),
)
