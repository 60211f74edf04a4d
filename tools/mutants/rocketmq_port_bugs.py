"""Bugs of what one client of RocketMQ's ports can make a node do, and of batches that lie to it."""

from .mutant import Kind, plant

AREA = "RocketMQ's ports"
EXCERPTS = ("tests/record/test_excerpt.py",)
READS = ("tests/remoting/test_unreadable_batches.py",)
SENDS = ("tests/remoting/test_heavy_sends.py",)
LARGE = ("tests/remoting/test_large_requests.py",)
GRPC = ("tests/grpc/test_sending.py",)

MUTANTS = (
    plant(
        "rocketmq-port-cut-ends-with-its-batch",
        AREA,
        "messages behind the bound of a pull are passed over with the rest of their batch",
        (
            "record/excerpt.py",
            "        last_delta = last if is_cut else header.last_offset_delta\n",
            "        last_delta = header.last_offset_delta\n",
        ),
        kind=Kind.RANGE,
        near=EXCERPTS,
    ),
    plant(
        "rocketmq-port-good-records-go-with-bad-ones",
        AREA,
        "a batch that lies at its end loses the messages before the lie's successors: read twice",
        (
            "record/excerpt.py",
            "        is_cut = state == MORE or (state == CORRUPT and taken > 0)\n",
            "        is_cut = state == MORE\n",
        ),
        kind=Kind.GUARD,
        near=EXCERPTS,
    ),
    plant(
        "rocketmq-port-damage-is-stepped-over",
        AREA,
        "what rots on a disk is passed over as if a producer had written it so",
        (
            "record/excerpt.py",
            "        if crc32c(batch[CHECKED_AT:]) != header.crc:\n"
            '            raise CorruptBatch("CRC does not match")\n',
            "",
        ),
        kind=Kind.GUARD,
        near=EXCERPTS,
    ),
    plant(
        "rocketmq-port-work-has-no-sum",
        AREA,
        "a run of batches that are each little work holds the loop for all of them",
        (
            "record/excerpt.py",
            "        self._work_left -= len(block)\n",
            "        self._work_left = HERE_WORK - len(block)\n",
        ),
        kind=Kind.STALE,
        near=EXCERPTS,
    ),
    plant(
        "rocketmq-port-batches-have-no-end",
        AREA,
        "thousands of batches of one record are made anew in one turn",
        (
            "record/excerpt.py",
            "elif not self._add(header, batch) or not batches_left:\n",
            "elif not self._add(header, batch):\n",
        ),
        kind=Kind.GUARD,
        near=EXCERPTS,
    ),
    plant(
        "rocketmq-port-waiting-batches-count-for-ever",
        AREA,
        "each batch that a worker unpacks stays counted as what its client pins",
        (
            "remoting/excerpts.py",
            "            client.let_go(len(data))\n",
            "            client.let_go(0)\n",
        ),
        kind=Kind.CLEARED,
        near=READS,
    ),
    plant(
        "rocketmq-port-log-line-for-each-reader",
        AREA,
        "a client fills the log by reading one batch again and again",
        (
            "remoting/excerpts.py",
            "        self._logged_ms = now_ms\n",
            "",
        ),
        kind=Kind.STALE,
        near=READS,
    ),
    plant(
        "rocketmq-port-bodies-have-each-their-own-bound",
        AREA,
        "a batch of compressed bodies unpacks to thousands of times what its topic permits",
        (
            "remoting/handlers/sent_messages.py",
            "        left -= len(body)\n",
            "",
        ),
        kind=Kind.STALE,
        near=SENDS,
    ),
    plant(
        "rocketmq-port-large-bodies-on-the-loop",
        AREA,
        "a body that unpacks to a megabyte is unpacked in the turn of its frame",
        (
            "remoting/handlers/sent_messages.py",
            "plain_body_up_to(bytes(sent.body), sent.sys_flag, HERE_BYTES)",
            "plain_body_up_to(bytes(sent.body), sent.sys_flag, sent.rules.max_message_bytes)",
        ),
        kind=Kind.RANGE,
        near=SENDS,
    ),
    plant(
        "rocketmq-port-bodies-of-the-receive-buffer",
        AREA,
        "a batch that waits for its turn has the bytes of the requests behind it",
        (
            "remoting/handlers/send.py",
            "    kept = sent._replace(body=bytes(sent.body))",
            "    kept = sent._replace(body=sent.body)",
        ),
        kind=Kind.STALE,
        near=SENDS,
    ),
    plant(
        "rocketmq-port-turns-of-sends-are-not-given-back",
        AREA,
        "after a refused batch no other one of its address is ever read",
        (
            "remoting/pop/serving.py",
            "    try:\n        await work\n    finally:\n        over()\n",
            "    await work\n    over()\n",
        ),
        kind=Kind.CLEARED,
        near=SENDS,
    ),
    plant(
        "rocketmq-port-properties-are-counted-by-slice",
        AREA,
        "a batch has as many properties in memory as its frame has room for",
        (
            "remoting/handlers/sent_messages.py",
            "        properties += sum(",
            "        properties = sum(",
        ),
        kind=Kind.STALE,
        near=SENDS,
    ),
    plant(
        "rocketmq-port-queues-of-an-answer-overlap",
        AREA,
        "a member is told some of its queues twice, where it has many",
        (
            "remoting/handlers/assignments.py",
            "found[at : at + ENCODED_AT_ONCE]",
            "found[at : at + ENCODED_AT_ONCE + 1]",
        ),
        kind=Kind.RANGE,
        near=LARGE,
    ),
    plant(
        "rocketmq-port-pops-wait-between-look-and-hand-out",
        AREA,
        "what came back while a pop waited for its turn is handed out unread: a KeyError",
        (
            "remoting/pop/popping.py",
            "            await self._pace.step(20)\n            if self._has_gone:\n",
            "            if self._has_gone:\n",
        ),
        (
            "remoting/pop/popping.py",
            "            # From here on nothing is waited for: it is this that is handed out.\n",
            "            await self._pace.step(20)\n",
        ),
        kind=Kind.ORDER,
        near=("tests/remoting/test_pop.py",),
    ),
    plant(
        "rocketmq-port-tellings-pile-up",
        AREA,
        "members that join and hang up have one telling begun upon the other, without a bound",
        (
            "remoting/front.py",
            "        self._is_telling = True\n",
            "",
        ),
        kind=Kind.STALE,
        near=LARGE,
    ),
    plant(
        "rocketmq-port-large-bodies-are-decoded-first",
        AREA,
        "a heartbeat of 16 MB is decoded before it is refused",
        (
            "remoting/dispatch.py",
            "BODY_BYTES_MAX: Final = 1 << 20",
            "BODY_BYTES_MAX: Final = 16 << 20",
        ),
        kind=Kind.RANGE,
        near=LARGE,
    ),
    plant(
        "rocketmq-port-locks-lose-a-queue-of-each-slice",
        AREA,
        "an orderly consumer of many queues does not get every two hundredth",
        (
            "remoting/handlers/locks.py",
            "        if at and not at % SLICE:\n            yield\n",
            "        if at and not at % SLICE:\n            yield\n            continue\n",
        ),
        kind=Kind.RANGE,
        near=LARGE,
    ),
    plant(
        "rocketmq-port-grpc-unpacks-what-no-topic-takes",
        AREA,
        "gRPC's bodies unpack to 4 MiB on the loop for a topic that takes one",
        (
            "grpc/incoming.py",
            "    left = min(BODY_BYTES_MAX, batch_bytes_max)\n",
            "    left = BODY_BYTES_MAX\n",
        ),
        kind=Kind.RANGE,
        near=GRPC,
    ),
)
