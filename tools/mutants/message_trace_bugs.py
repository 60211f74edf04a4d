"""Bugs of the trace of messages: what is heard, sampled, written, found and told."""

from .mutant import Kind, plant

AREA = "Message trace"
SHARES = ("tests/shares/test_tracing.py",)
ROWS = ("tests/finding/test_traces.py",)
LOG = ("tests/broker/test_message_trace.py",)
TOLD = ("tests/cli/test_message_trace.py",)
HANDLERS = ("tests/remoting/test_handlers.py",)
MESSAGES = ("tests/remoting/test_messages.py",)
POPS = ("tests/remoting/test_pop.py",)
TRACING, TRACE = "shares/updates/tracing.py", "broker/audit/message_trace.py"

MUTANTS = (
    plant(
        "trace-hears-before-it-is-confirmed",
        AREA,
        "what a failover takes away was delivered, as the trace says",
        (
            "shares/flushing.py",
            "        write = Write(shares, records, found, waiting, self._told)\n",
            "        write = Write(shares, records, found, waiting, self._confirmed)\n"
            "        for one in found:\n"
            "            self._told(shares, one._replace(letters=()))\n",
        ),
        kind=Kind.GUARD,
        near=SHARES,
    ),
    plant(
        "trace-members-by-their-present-number",
        AREA,
        "a delivery is told as that of the member that has the number by now",
        (
            TRACING,
            '("" if number in reassigned else names[number])',
            "names[number]",
        ),
        kind=Kind.STALE,
        near=SHARES,
    ),
    plant(
        "trace-unwanted-records-are-delivered",
        AREA,
        "a message that the group's filter leaves out was delivered and accepted",
        (
            "remoting/pop/popping.py",
            ", _ignore, is_unwanted=True)",
            ", _ignore, is_unwanted=False)",
        ),
        kind=Kind.GUARD,
        near=TOLD,
    ),
    plant(
        "trace-unwanted-records-stay-so",
        AREA,
        "after a reset a message that was passed over once is never told as delivered",
        (
            "shares/flushing.py",
            "                ledger.unwanted = NONE_UNWANTED\n",
            "",
        ),
        kind=Kind.CLEARED,
        near=SHARES,
    ),
    plant(
        "trace-dead-records-are-accepted",
        AREA,
        "a record that is given up is told as accepted",
        (
            TRACING,
            "        case Settled() if update.state == DONE:\n",
            "        case Settled():\n",
        ),
        kind=Kind.GUARD,
        near=SHARES,
    ),
    plant(
        "trace-events-backwards",
        AREA,
        "a message was accepted before it was delivered",
        (TRACING, "    found.reverse()\n", ""),
        kind=Kind.ORDER,
        near=SHARES,
    ),
    plant(
        "trace-of-the-trace",
        AREA,
        "a group that reads the trace makes more of it for ever",
        (
            TRACE,
            "topic is not None and not topic.internal and self",
            "topic is not None and self",
        ),
        kind=Kind.GUARD,
        near=LOG,
    ),
    plant(
        "trace-events-without-a-bound",
        AREA,
        "a group that steps over a million messages makes ten thousand rows in one turn",
        (
            TRACE,
            "            looked = self._bounded(runs)\n",
            "            looked = runs\n",
        ),
        kind=Kind.RANGE,
        near=LOG,
    ),
    plant(
        "trace-samples-by-offset-alone",
        AREA,
        "the same offsets of every partition are traced, and others never",
        (
            "finding/traces.py",
            "crc32(_OFFSET.pack(partition, offset), seed)",
            "crc32(_OFFSET.pack(0, offset), 0)",
        ),
        kind=Kind.GUARD,
        near=ROWS,
    ),
    plant(
        "trace-rows-lack-what-does-not-fill-one",
        AREA,
        "the last messages of an event have no row",
        (
            "finding/traces.py",
            "    if piece:\n        yield piece\n",
            "    if len(piece) > 1:\n        yield piece\n",
        ),
        kind=Kind.RANGE,
        near=ROWS,
    ),
    plant(
        "trace-is-not-indexed",
        AREA,
        "rows are written, and found by nobody",
        (
            "broker/finding/indexing.py",
            "        if topic.internal and topic.name != MESSAGE_TRACE_TOPIC:\n",
            "        if topic.internal:\n",
        ),
        kind=Kind.GUARD,
        near=TOLD,
    ),
    plant(
        "trace-rows-wait-for-the-next-tick",
        AREA,
        "what came while a batch was written waits, and is lost with a process that is killed",
        (
            TRACE,
            "        self._broker.scheduler.call_soon(self._rows.write)\n",
            "",
        ),
        kind=Kind.GUARD,
        near=LOG,
    ),
    plant(
        "client-traces-without-a-route",
        AREA,
        "clients with traces drop them where topics are not made on demand",
        (
            "remoting/handlers/routes.py",
            "    is_needed = has_members or name == CLIENT_TRACES\n",
            "    is_needed = has_members\n",
        ),
        kind=Kind.GUARD,
        near=HANDLERS,
    ),
    plant(
        "a-region-beyond-the-room-for-it",
        AREA,
        "properties of 32 KiB get 25 bytes more, and their length is negative on the wire",
        (
            "remoting/wire/properties.py",
            "len(text.encode()) + len(_REGION_TOLD) > PROPERTIES_BYTES_MAX",
            "len(text) + len(_REGION_TOLD) > PROPERTIES_BYTES_MAX",
        ),
        kind=Kind.RANGE,
        near=MESSAGES,
    ),
    plant(
        "pops-without-a-region",
        AREA,
        "clients that pop trace no consumption",
        (
            "remoting/pop/encoding.py",
            "properties=write_consumed(mapped.properties)",
            "properties=write_properties(mapped.properties)",
        ),
        (
            "remoting/pop/encoding.py",
            "from penstock.remoting.wire.properties import write_consumed\n",
            "from penstock.remoting.wire.properties import write_properties\n",
        ),
        kind=Kind.GUARD,
        near=POPS,
    ),
)
