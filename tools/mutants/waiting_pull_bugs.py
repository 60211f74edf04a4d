"""Bugs of pulls with filters that wait, and of the tail that they share."""

from .mutant import Kind, plant

AREA = "Waiting pulls"
WAITING, PULL = "remoting/filters/waiting.py", "remoting/handlers/pull.py"
NEAR = ("tests/remoting/filters/test_waiting_pulls.py", "tests/remoting/filters")

MUTANTS = (
    plant(
        "waiting-tail-of-an-older-mastership-is-believed",
        AREA,
        "what was cut away in a failover is judged in place of what is there",
        (
            WAITING,
            "        if self._of != self._mastership() or not self.first <= offset <= self.end:\n",
            "        if not self._of or not self.first <= offset <= self.end:\n",
        ),
        kind=Kind.EPOCH,
        near=NEAR,
    ),
    plant(
        "waiting-tail-forgets-that-records-are-missing",
        AREA,
        "a read behind the tail's end is joined to it, and what is between is never looked at",
        (
            WAITING,
            "        if of != self._of or not self.first <= begun <= self.end:\n",
            "        if of != self._of:\n",
        ),
        kind=Kind.RANGE,
        near=NEAR,
    ),
    plant(
        "waiting-tail-takes-a-long-read-for-whole",
        AREA,
        "the records with which a long read has begun are not there, and are passed over",
        (
            WAITING,
            "        if len(records) == TAIL_RECORDS:\n            begun = records[0].offset\n",
            "",
        ),
        kind=Kind.RANGE,
        near=NEAR,
    ),
    plant(
        "waiting-tail-begins-with-what-it-let-go",
        AREA,
        "a pull that stands at a record that was let go is told that it does not want it",
        (
            WAITING,
            "            self.first = gone.offset + 1\n",
            "            self.first = gone.offset\n",
        ),
        kind=Kind.RANGE,
        near=NEAR,
    ),
    plant(
        "waiting-pull-gets-one-message-at-a-time",
        AREA,
        "of two messages that are known to be wanted the second needs another pull",
        (WAITING, "is_one=len(wanted) == 1", "is_one=True"),
        kind=Kind.RANGE,
        near=NEAR,
    ),
    plant(
        "waiting-pulls-are-held-by-a-client-that-takes-no-answers",
        AREA,
        "all who wait for the same read wait for its client",
        (
            WAITING,
            "        if tail.timer is None:\n"
            "            tail.timer = self.later(BEHIND_MS, partial(self.read_over, tail))\n",
            "",
        ),
        kind=Kind.GUARD,
        near=NEAR,
    ),
    plant(
        "waiting-pulls-are-not-woken-when-the-reader-has-gone",
        AREA,
        "who waits for a read hears of its end only where it has found something",
        (
            PULL,
            "        if self.context.connection.is_closed:\n            self.over(what)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=NEAR,
    ),
    plant(
        "waiting-tail-outlives-its-pulls",
        AREA,
        "the tail of a partition stays when nobody waits there any more",
        (
            WAITING,
            "            if not tail.waiting:\n                del self._tails[hosted]\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=NEAR,
    ),
    plant(
        "waiting-pull-reads-when-nothing-is-wanted",
        AREA,
        "each of a thousand pulls reads what one of them has read",
        (
            WAITING,
            "        if self._offset < end and not self._is_behind():\n",
            "        if not self._is_behind():\n",
        ),
        kind=Kind.GUARD,
        near=NEAR,
    ),
    plant(
        "waiting-pull-is-told-where-it-began",
        AREA,
        "a pull whose time is over is to look at everything once more",
        (
            WAITING,
            "        if not wanted:\n            self._offset = self._tail.end\n",
            "        if not wanted:\n            self._offset = self._tail.first\n",
        ),
        kind=Kind.RANGE,
        near=NEAR,
    ),
    plant(
        "waiting-pull-that-is-over-stays-on-its-partition",
        AREA,
        "answered pulls pile up on a partition to which nobody writes",
        (
            WAITING,
            "        self._is_over = True\n        self._hosted.leave(self)\n",
            "        self._is_over = True\n",
        ),
        kind=Kind.CLEARED,
        near=NEAR,
    ),
)
