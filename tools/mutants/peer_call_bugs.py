"""Planted bugs of what brokers ask each other: calls that are done twice, get lost or never end."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

ASKING = ("tests/runtime/test_calls.py",)
LINKS = ("tests/runtime/test_call_links.py",)
BOTH = (*ASKING, *LINKS)
LANE, CLIENT, SERVER = (f"runtime/calls/{name}.py" for name in ("lane", "client", "server"))

MUTANTS = (
    plant(
        "calls-of-a-lost-link-wait",
        "Calls",
        "whoever waits for an answer hears of a dead broker only when the time is over",
        (CLIENT, "            self.lane.lose(reason)\n", ""),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "calls-of-a-lost-link-are-sent-again",
        "Calls",
        "markers are written twice, the second time into the next transaction",
        (
            LANE,
            '            self._end(number, LinkLost(f"{self.who}: {reason}"))\n',
            "            self.waiting[number] = self.sent.pop(number)\n",
        ),
        kind=Kind.CLEARED,
        near=LINKS,
    ),
    plant(
        "what-waits-is-lost-with-the-link",
        "Calls",
        "calls that were never sent end with an unknown outcome",
        (LANE, "for number in list(self.sent):", "for number in [*self.sent, *self.waiting]:"),
        kind=Kind.RANGE,
        near=LINKS,
    ),
    plant(
        "a-call-that-waited-may-have-been-done",
        "Calls",
        "a transaction is aborted for a question that was never sent",
        (LANE, "        if number in self.sent:\n", "        if True:\n"),
        kind=Kind.GUARD,
        near=ASKING,
    ),
    plant(
        "the-queue-of-calls-has-no-end",
        "Calls",
        "a broker that is down fills the memory of all others",
        (LANE, "        if len(self.waiting) >= limits.queued:\n", "        if False:\n"),
        kind=Kind.GUARD,
        near=ASKING,
    ),
    plant(
        "one-call-more-in-flight",
        "Calls",
        "the bound of calls in flight is one off",
        (
            LANE,
            "len(self.sent) < self._ports.limits.in_flight",
            "len(self.sent) <= self._ports.limits.in_flight",
        ),
        kind=Kind.RANGE,
        near=ASKING,
    ),
    plant(
        "all-that-waited-is-sent-in-a-turn",
        "Turns",
        "a link that comes back has 64 large questions written at once, in 35 ms",
        (LANE, "            if not left:\n", "            if False:\n"),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "answers-are-taken-in-the-order-of-questions",
        "Calls",
        "one transaction hears what was said of another",
        (
            LANE,
            "        call = self.sent.get(answer.correlation)\n        if call is None:\n            return\n",
            "        if not self.sent:\n            return\n        answer = replace(answer, correlation=next(iter(self.sent)))\n        call = self.sent[answer.correlation]\n",
        ),
        kind=Kind.ORDER,
        near=ASKING,
    ),
    plant(
        "an-answer-need-not-fit",
        "Calls",
        "partitions without a code count as done",
        (LANE, "        elif not fits(call.question, answer):\n", "        elif False:\n"),
        kind=Kind.GUARD,
        near=ASKING,
    ),
    plant(
        "room-is-left-unused",
        "Calls",
        "calls that wait for room are not sent when there is some again",
        (
            LANE,
            "            stats.outcomes[kind, outcome] += 1\n            self.pump()\n",
            "            stats.outcomes[kind, outcome] += 1\n",
        ),
        kind=Kind.GUARD,
        near=ASKING,
    ),
    plant(
        "an-earlier-release-is-dialled-in-a-loop",
        "Calls",
        "brokers that do not know calls yet are dialled thousands of times a second",
        (
            CLIENT,
            "            if not self._is_stopped:\n"
            "                await rest(self._changed, self._pause.after(lasted_ms))\n",
            "",
        ),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "the-address-is-that-of-the-first-time",
        "Calls",
        "a broker that has moved is never asked again",
        (
            CLIENT,
            "        address = self._address = ports.address_of(self.broker_id)\n",
            "        address = self._address = self._address or ports.address_of(self.broker_id)\n",
        ),
        kind=Kind.STALE,
        near=LINKS,
    ),
    plant(
        "an-old-link-is-asked-though-the-broker-has-moved",
        "Calls",
        "a process that hangs at the old address is asked instead of its successor",
        (
            CLIENT,
            "        if self.link is not None and self._ports.address_of(self.broker_id) != self._address:\n",
            "        if self.link is not None and self._ports.address_of(self.broker_id) is None:\n",
        ),
        kind=Kind.STALE,
        near=LINKS,
    ),
    plant(
        "whoever-is-there-is-asked",
        "Calls",
        "another broker at the address writes markers that are not for it",
        (CLIENT, "        if link.hello.peer_id != self.broker_id:\n", "        if False:\n"),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "silence-ends-no-link",
        "Calls",
        "after a network partition calls time out one by one until TCP gives up",
        (
            CLIENT,
            "            self._look_after(self._ports.config.link_silence_ms)\n\n",
            "            pass\n\n",
        ),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "a-slow-handler-is-a-dead-broker",
        "Calls",
        "nothing tells the caller that its question is worked on",
        (SERVER, "        self._tell_later()\n        self._server", "        self._server"),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "a-newer-link-begins-with-no-questions",
        "Calls",
        "a peer that opens link after link has thousands of questions worked on at once",
        (
            SERVER,
            "        link.on_writable = self._read_or_not\n        self._read_or_not()\n",
            "        link.on_writable = self._read_or_not\n        self._running = 0\n",
        ),
        kind=Kind.CLEARED,
        near=LINKS,
    ),
    plant(
        "questions-without-end",
        "Calls",
        "a broker that asks a lot takes the loop of another one",
        (SERVER, "self._running >= self._server.ports.limits.served or", "False or"),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "an-unknown-question-ends-the-link",
        "Calls",
        "beside a later release every call is lost",
        (SERVER, "        if not is_question(frame):\n", "        if frame:\n"),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "what-failed-was-not-begun",
        "Calls",
        "a marker that is half written is said not to be written",
        (
            SERVER,
            "        except CallFailed as error:\n            answer = unserved(number, str(error), is_begun=True)\n",
            "        except CallFailed as error:\n            answer = unserved(number, str(error), is_begun=False)\n",
        ),
        kind=Kind.GUARD,
        near=ASKING,
    ),
    plant(
        "its-own-questions-have-no-bound",
        "Calls",
        "a broker that asks itself and gives up has more and more handlers at work",
        (
            CLIENT,
            "        return self._running < self._ports.limits.served\n",
            "        return True\n",
        ),
        kind=Kind.GUARD,
        near=ASKING,
    ),
    plant(
        "a-topic-id-of-any-length",
        "Calls",
        "a malformed topic id reaches the broker",
        ("runtime/calls/messages.py", "if len(topic_id) != TOPIC_ID_BYTES:", "if False:"),
        kind=Kind.GUARD,
        near=LINKS,
    ),
    plant(
        "large-questions-end-the-link",
        "Calls",
        "one question that is too large costs the answers of all others",
        (
            "runtime/calls/messages.py",
            "    if len(frame) > kind.BYTES_MAX:\n",
            "    if False:\n",
        ),
        kind=Kind.GUARD,
        near=ASKING,
    ),
)
