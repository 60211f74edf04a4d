"""Bugs of pop: receipts, what is unwanted, what is given up; and of routes."""

from .mutant import Kind, plant

AREA = "Pop"
RECEIPTS = ("tests/remoting/test_receipts.py",)
SAID = ("tests/remoting/test_pop_receipts.py", "tests/remoting/test_pop_parts.py")
POPS = ("tests/remoting/test_pop.py",)
ROUTES = ("tests/remoting/test_routes.py",)
HANDLERS = ("tests/remoting/test_handlers.py",)

MUTANTS = (
    plant(
        "pop-receipts-are-good-elsewhere",
        AREA,
        "a receipt of another group acknowledges what it has not got",
        (
            "remoting/pop/receipts.py",
            "    return (number & NONCE_MASK) ^ _salt(key)\n",
            "    return (number & NONCE_MASK) ^ _salt(key) if key is None else 1\n",
        ),
        kind=Kind.GUARD,
        near=RECEIPTS,
    ),
    plant(
        "pop-late-acknowledgements-succeed",
        AREA,
        "a client is told that it has acknowledged what another one has by now",
        (
            "remoting/pop/saying.py",
            "    return BadReceipt(OVER) if Verdict.LAPSED in answer.verdicts else None\n",
            "    return None\n",
        ),
        kind=Kind.GUARD,
        near=SAID,
    ),
    plant(
        "pop-what-is-given-back-is-kept",
        AREA,
        "a message that its client gives back waits for its time to be over",
        (
            "remoting/pop/saying.py",
            "    return Say.RENEW if invisible_ms else Say.RELEASE\n",
            "    return Say.RENEW\n",
        ),
        kind=Kind.GUARD,
        near=SAID,
    ),
    plant(
        "pop-what-is-unwanted-is-held",
        AREA,
        "messages of other tags fill the hands of a client that never sees them",
        ("remoting/pop/popping.py", "        if unwanted:\n", "        if unwanted is None:\n"),
        kind=Kind.CLEARED,
        near=POPS,
    ),
    plant(
        "pop-over-before-its-dead-letter",
        AREA,
        "a message that is given up is lost with its master",
        (
            "remoting/pop/letters.py",
            "        outcome = await told\n",
            "        outcome = told.result() if told.done() else 0\n",
        ),
        kind=Kind.ORDER,
        near=POPS,
    ),
    plant(
        "pop-passes-what-came-back",
        AREA,
        "a message that comes back while newer ones are read is never popped again",
        (
            "remoting/pop/popping.py",
            "            if now.next_offset < outlook.next_offset:\n",
            "            if now.next_offset < 0:\n",
        ),
        kind=Kind.STALE,
        near=POPS,
    ),
    plant(
        "pop-bits-are-one-off",
        AREA,
        "a batch acknowledges the neighbours of what was processed",
        (
            "remoting/pop/batch_acks.py",
            "        return [self.start + bit for bit in _bits(self.bits)]\n",
            "        return [self.start + bit + 1 for bit in _bits(self.bits)]\n",
        ),
        kind=Kind.RANGE,
        near=RECEIPTS,
    ),
    plant(
        "pop-positions-are-passed-over",
        AREA,
        "a group that has pulled before pops nothing of what is left",
        (
            "remoting/pop/beginning.py",
            "        return max(start, min(position, end))\n",
            "        return max(start, end)\n",
        ),
        kind=Kind.GUARD,
        near=POPS,
    ),
    plant(
        "pop-first-attempts-are-second-ones",
        AREA,
        "a message that comes for the first time says that it was consumed before",
        (
            "remoting/pop/encoding.py",
            "mapped.reconsume_times + deliveries - 1,",
            "mapped.reconsume_times + deliveries,",
        ),
        kind=Kind.RANGE,
        near=POPS,
    ),
    plant(
        "remoting-masters-have-their-own-ids",
        AREA,
        "clients find no master in a route",
        (
            "remoting/routes.py",
            "        _MASTER if one.is_master else str(one.broker_id + 1): one.address",
            "        _MASTER if not one.broker_id else str(one.broker_id + 1): one.address",
        ),
        kind=Kind.STALE,
        near=ROUTES,
    ),
    plant(
        "remoting-retry-topics-for-nobody",
        AREA,
        "anybody makes retry topics by asking for the routes of groups that are not there",
        (
            "remoting/handlers/routes.py",
            "    has_members = group is not None and context.front.members.client_ids(group)\n",
            "    has_members = group is not None\n",
        ),
        kind=Kind.GUARD,
        near=HANDLERS,
    ),
)
