"""Bugs of transactions of RocketMQ's gRPC producers."""

from .mutant import Kind, plant

AREA = "gRPC transactions"
TRANSACTIONS = ("tests/grpc/test_transactions.py",)
PRODUCERS = ("tests/grpc/test_producers.py",)
HALVES = ("tests/remoting/test_half_messages.py",)

MUTANTS = (
    plant(
        "grpc-halves-of-any-topic",
        AREA,
        "who may write to one topic decides half messages of others",
        (
            "remoting/halves/passing_on.py",
            "    if not is_of_group or of not in {None, topic}:\n",
            "    if found is not None and not found.half.group:\n",
        ),
        kind=Kind.GUARD,
        near=TRANSACTIONS,
    ),
    plant(
        "grpc-halves-of-any-group",
        AREA,
        "a gRPC client decides half messages of remoting producers' groups",
        (
            "remoting/halves/passing_on.py",
            "    if not is_of_group or of not in {None, topic}:\n",
            "    if of not in {None, topic}:\n",
        ),
        kind=Kind.GUARD,
        near=TRANSACTIONS,
    ),
    plant(
        "grpc-halves-of-any-message",
        AREA,
        "a decision about one message decides another one",
        (
            "grpc/methods/end_transaction.py",
            "    halves.end(place, Decide(offset, outcome, done, request.message_id))\n",
            "    halves.end(place, Decide(offset, outcome, done))\n",
        ),
        kind=Kind.GUARD,
        near=TRANSACTIONS,
    ),
    plant(
        "grpc-halves-unknown-is-rolled-back",
        AREA,
        "a producer that does not know yet rolls its transaction back",
        (
            "grpc/methods/end_transaction.py",
            "_OUTCOMES: Final = {1: Outcome.COMMIT, 2: Outcome.ROLLBACK}\n",
            "_OUTCOMES: Final = {0: Outcome.ROLLBACK, 1: Outcome.COMMIT, 2: Outcome.ROLLBACK}\n",
        ),
        kind=Kind.GUARD,
        near=TRANSACTIONS,
    ),
    plant(
        "grpc-halves-anybody-is-asked",
        AREA,
        "who may not write to a topic is sent its messages",
        (
            "grpc/producing/asking.py",
            "    return authoriser.permits_all or authoriser.permits(\n",
            "    return not authoriser.permits_all or authoriser.permits(\n",
        ),
        kind=Kind.GUARD,
        near=TRANSACTIONS,
    ),
    plant(
        "grpc-halves-deaf-ones-are-asked",
        AREA,
        "questions pile up for a producer that takes nothing, and others are not asked",
        (
            "grpc/producing/asking.py",
            "    if stream.is_over or stream.stream.queue:\n",
            "    if stream.is_over:\n",
        ),
        kind=Kind.GUARD,
        near=TRANSACTIONS,
    ),
    plant(
        "grpc-halves-silent-ones-are-asked",
        AREA,
        "checks are counted that nobody has heard",
        (
            "grpc/producing/producers.py",
            "            return now_ms - known.heard_ms < HEARD_MS and is_fit(known.stream)\n",
            "            return is_fit(known.stream)\n",
        ),
        kind=Kind.GUARD,
        near=PRODUCERS,
    ),
    plant(
        "grpc-halves-the-first-is-asked-always",
        AREA,
        "a producer that does not answer keeps the others from being asked",
        (
            "remoting/halves/turns.py",
            "                clients[client] = clients.pop(client)\n",
            "                clients[client] = clients[client]\n",
        ),
        kind=Kind.ORDER,
        near=PRODUCERS,
    ),
    plant(
        "grpc-halves-an-older-stream-takes-all-along",
        AREA,
        "a producer that has come back is forgotten as its old connection ends",
        (
            "grpc/producing/producers.py",
            "        if known is None or known.stream is not stream:\n",
            "        if known is None:\n",
        ),
        kind=Kind.CLEARED,
        near=PRODUCERS,
    ),
    plant(
        "grpc-halves-topics-are-counted-for-ever",
        AREA,
        "producers that come and go fill the table, until none can come",
        (
            "grpc/producing/producers.py",
            "        self._seats.change(known.user, -len(known.topics))\n",
            "        self._seats.change(known.user, -1)\n",
        ),
        kind=Kind.RANGE,
        near=PRODUCERS,
    ),
    plant(
        "grpc-halves-time-is-cut-to-seconds-downwards",
        AREA,
        "a transaction is asked for before the time that its message says",
        (
            "grpc/producing/transactions.py",
            "        seconds = -(-ms_of(recovery) // 1_000)\n",
            "        seconds = ms_of(recovery) // 1_000\n",
        ),
        kind=Kind.RANGE,
        near=PRODUCERS,
    ),
    plant(
        "grpc-halves-copies-show-another-id",
        AREA,
        "the committed message has another transaction id than its sender was told",
        (
            "remoting/halves/record.py",
            "    told = place.encode() if is_by_place else names.get(HEADER_OF[UNIQ_KEY])\n",
            "    told = names.get(HEADER_OF[UNIQ_KEY])\n",
        ),
        kind=Kind.GUARD,
        near=TRANSACTIONS,
    ),
    plant(
        "halves-one-protocol-alone-is-asked",
        AREA,
        "producers of the other protocol are never asked where both are there",
        (
            "remoting/halves/halves.py",
            "                self.askers.append(self.askers.pop(at))\n",
            "                self.askers.insert(0, self.askers.pop(at))\n",
        ),
        kind=Kind.ORDER,
        near=HALVES,
    ),
)
