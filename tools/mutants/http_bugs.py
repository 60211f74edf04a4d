"""Bugs of the HTTP front: hand-outs, receipts, bounds, and who may do what."""

from .mutant import Kind, plant

AREA = "HTTP front"
PRODUCE = ("tests/http_front/test_produce.py",)
CONSUME = ("tests/http_front/test_consume.py",)
STREAM = ("tests/http_front/test_stream.py",)
BOUNDS = ("tests/http_front/test_bounds.py",)
SLOW = ("tests/http_front/test_slow_clients.py",)
TOKENS = ("tests/http_front/test_tokens.py",)
PROCESS = ("tests/http_front/test_process.py",)
BAD_INPUT = ("tests/http_front/test_bad_input.py",)

MUTANTS = (
    plant(
        "http-keys-are-anywhere",
        AREA,
        "messages with equal keys lose their order",
        (
            "http/operations/produce.py",
            "        return partition_for_key(message.key.encode(), count)\n",
            "        return partition_for_key(message.id.encode(), count)\n",
        ),
        kind=Kind.GUARD,
        near=PRODUCE,
    ),
    plant(
        "http-one-offset-for-all",
        AREA,
        "of the messages of a batch a client knows the first one's place alone",
        (
            "http/operations/produce.py",
            '                outcome["offset"] = first + number\n',
            '                outcome["offset"] = first\n',
        ),
        kind=Kind.RANGE,
        near=PRODUCE,
    ),
    plant(
        "http-renewed-makes-room",
        AREA,
        "a stream sends more than may be in flight once a message is renewed",
        (
            "http/operations/settle.py",
            "            self._tell_streams(handle, renewed)\n",
            "            self._tell_streams(handle, None)\n",
        ),
        kind=Kind.CLEARED,
        near=STREAM,
    ),
    plant(
        "http-unsent-is-kept",
        AREA,
        "what was handed out and not sent is kept from all for its time",
        (
            "http/operations/stream.py",
            "                left.pop(0)\n",
            "                left.clear()\n",
        ),
        kind=Kind.CLEARED,
        near=STREAM,
    ),
    plant(
        "http-gone-clients-wait-on",
        AREA,
        "a client that has gone goes on taking messages until its wait is over",
        (
            "http/operations/receive.py",
            "        return self._call.is_gone or self._front.stopping.is_set()\n",
            "        return self._front.stopping.is_set()\n",
        ),
        kind=Kind.GUARD,
        near=CONSUME,
    ),
    plant(
        "http-reject-does-not-ask",
        AREA,
        "a receipt that is over makes a dead letter of a message that somebody else has",
        (
            "http/upstream/popping.py",
            "        kept = await self.change(handle, BURY_S * 1000)\n",
            "        kept = handle\n",
        ),
        kind=Kind.ORDER,
        near=CONSUME,
    ),
    plant(
        "http-renewed-keeps-its-number",
        AREA,
        "a renewed message can not be acknowledged",
        (
            "http/upstream/popping.py",
            '                number=int(told["reviveQid"]),\n',
            "                number=old.number,\n",
        ),
        kind=Kind.STALE,
        near=CONSUME,
    ),
    plant(
        "http-any-group-will-do",
        AREA,
        "a token consumes as any group",
        (
            "http/routing.py",
            "    if group not in token.groups:\n",
            "    if not token.groups:\n",
        ),
        kind=Kind.GUARD,
        near=TOKENS,
    ),
    plant(
        "http-withdrawn-tokens-stream-on",
        AREA,
        "a stream goes on after its token was withdrawn",
        (
            "http/operations/stream.py",
            "return self._front.stopping.is_set() or not is_permitted\n",
            "return self._front.stopping.is_set()\n",
        ),
        kind=Kind.STALE,
        near=STREAM,
    ),
    plant(
        "http-one-identity-for-all",
        AREA,
        "the nodes take every token for the user of the process",
        (
            "http/front.py",
            "        with self.used_as(token.credentials) as identity:\n",
            "        with self.used_as(self.tokens().credentials) as identity:\n",
        ),
        kind=Kind.STALE,
        near=PROCESS,
    ),
    plant(
        "http-bytes-are-held-for-ever",
        AREA,
        "bodies count after their requests have ended, until nothing is taken any more",
        (
            "http/call.py",
            "        self._held.give_back(self._held_bytes, self._holder)\n",
            "        self._held.give_back(0, self._holder)\n",
        ),
        kind=Kind.CLEARED,
        near=SLOW,
    ),
    plant(
        "http-heads-may-take-for-ever",
        AREA,
        "a head that begins behind another request has no time of its own",
        (
            "http/protocol.py",
            "        if self.conn.trailing_data[0] and self._is_between:\n",
            "        if self.conn.trailing_data[0] and not self._is_between:\n",
        ),
        kind=Kind.GUARD,
        near=SLOW,
    ),
    plant(
        "http-readers-are-ended-later",
        AREA,
        "a client that has paused once is ended while it reads",
        (
            "http/protocol.py",
            "        super().resume_writing()\n        self._disarm_write()\n",
            "        super().resume_writing()\n",
        ),
        kind=Kind.CLEARED,
        near=SLOW,
    ),
    plant(
        "http-broken-bodies-are-answered-twice",
        AREA,
        "a body that is no HTTP fails the request that it belongs to",
        (
            "http/protocol.py",
            "            self.cycle.disconnected = True\n",
            "            self.cycle.disconnected = False\n",
        ),
        kind=Kind.GUARD,
        near=BAD_INPUT,
    ),
    plant(
        "http-waits-outlast-the-end",
        AREA,
        "who waits is cut off when the process ends",
        (
            "http/operations/receive.py",
            "        return self._call.is_gone or self._front.stopping.is_set()\n",
            "        return self._call.is_gone\n",
        ),
        kind=Kind.GUARD,
        near=PROCESS,
    ),
    plant(
        "http-each-asks-for-itself",
        AREA,
        "each client that waits has a question of its own at the node",
        (
            "http/upstream/watches.py",
            "        task = self._tasks.get(key)\n",
            "        task = self._tasks.get((*key, begin))  # type: ignore[call-overload]\n",
        ),
        kind=Kind.GUARD,
        near=BOUNDS,
    ),
    plant(
        "http-one-connection-more",
        AREA,
        "a connection more than the bound is open",
        (
            "http/places.py",
            "        if len(self) >= self._most and not self._make_room():\n",
            "        if len(self) > self._most and not self._make_room():\n",
        ),
        kind=Kind.RANGE,
        near=BOUNDS,
    ),
    plant(
        "http-who-is-known-gives-way",
        AREA,
        "strangers that come push out clients whose tokens are known",
        ("http/call.py", "        shows(token)\n", "        pass\n"),
        kind=Kind.GUARD,
        near=BOUNDS,
    ),
    plant(
        "http-one-token-has-all-places",
        AREA,
        "a token's connections keep everybody else out",
        (
            "http/places.py",
            "        self._of_token = most * 3 // 4\n",
            "        self._of_token = most\n",
        ),
        kind=Kind.RANGE,
        near=BOUNDS,
    ),
    plant(
        "http-all-bodies-are-read-at-once",
        AREA,
        "bodies that come at full speed hold up everybody else",
        (
            "http/pacing.py",
            "                left -= 1\n",
            "                left -= 0\n",
        ),
        kind=Kind.RANGE,
        near=("tests/http_front/test_pacing.py",),
    ),
    plant(
        "http-one-token-holds-all",
        AREA,
        "a client that sends long bodies slowly keeps all others from sending any",
        (
            "http/limits.py",
            "        if self._of[token] + size > self.bytes_max * 3 // 4:\n",
            "        if self._of[token] + size > self.bytes_max:\n",
        ),
        kind=Kind.RANGE,
        near=BOUNDS,
    ),
    plant(
        "http-acknowledged-is-put-off",
        AREA,
        "what was acknowledged comes again a little later",
        (
            "http/operations/settle.py",
            "        await desk.accept(handle)\n",
            "        await desk.change(handle, 3_000)\n",
        ),
        kind=Kind.GUARD,
        near=CONSUME,
    ),
    plant(
        "http-renewed-for-its-old-time",
        AREA,
        "what is renewed comes again when its first time is over",
        (
            "http/operations/settle.py",
            "        return await desk.change(handle, round(wish.invisible_seconds * 1000))\n",
            "        return await desk.change(handle, handle.receipt.invisible_ms)\n",
        ),
        kind=Kind.STALE,
        near=CONSUME,
    ),
    plant(
        "http-delayed-at-once",
        AREA,
        "a message with a delay is there before those that have none",
        (
            "http/upstream/messages.py",
            "    if new.delay_level:\n",
            "    if new.delay_level < 0:\n",
        ),
        kind=Kind.GUARD,
        near=PRODUCE,
    ),
    plant(
        "http-expired-messages-can-be-settled",
        AREA,
        "of what was handed out again the client that had it first is not told",
        (
            "http/problems.py",
            "    ResponseCode.NO_MESSAGE: _Told(\n        HTTPStatus.GONE,\n",
            "    ResponseCode.NO_MESSAGE: _Told(\n        HTTPStatus.OK,\n",
        ),
        kind=Kind.GUARD,
        near=PROCESS,
    ),
)
