"""Bugs of work that one client makes: reads of many batches, reads of a store, long heartbeats."""

from .mutant import Kind, plant

AREA = "Fair work"
READING = ("tests/storage/test_reading.py",)
FETCHES = ("tests/broker/test_many_batches.py",)
TIER_READS = ("tests/runtime/test_tier_reads.py",)
TIER_READER = ("tests/tier/test_reader.py",)
MEMBERS = ("tests/remoting/test_members.py",)
LARGE = ("tests/remoting/test_large_requests.py",)
ASSIGNORS = ("tests/groups/consumer/test_assignors.py",)

MUTANTS = (
    plant(
        "work-batches-of-a-chunk-without-a-bound",
        AREA,
        "a read takes as many of the smallest batches as 8 MiB hold",
        (
            "storage/read/regions.py",
            "total + size > max_bytes or at - entry >= PIECES_MAX",
            "total + size > max_bytes or at >= entry + len(positions)",
        ),
        kind=Kind.GUARD,
        near=READING,
    ),
    plant(
        "work-joined-batches-count-as-one",
        AREA,
        "a chunk whose batches were joined tells that it has one",
        ("storage/read/chunk.py", "    chunk.count = count\n", ""),
        kind=Kind.STALE,
        near=READING,
    ),
    plant(
        "work-batches-are-bounded-for-each-partition",
        AREA,
        "a fetch of many partitions gets as many times the bound of batches",
        (
            "broker/fetch/operation.py",
            "batches += found.count",
            "batches = found.count",
        ),
        kind=Kind.STALE,
        near=FETCHES,
    ),
    plant(
        "work-a-full-answer-waits-for-bytes",
        AREA,
        "an answer with as many batches as it may have waits for its smallest size",
        (
            "broker/fetch/operation.py",
            "is_full = is_full or found.is_cut or batches >= BATCHES_MAX",
            "is_full = is_full or found.is_cut",
        ),
        kind=Kind.ORDER,
        near=FETCHES,
    ),
    plant(
        "work-tier-answers-without-a-bound-of-batches",
        AREA,
        "an answer from the store has all batches of its window",
        ("tier/read/reader.py", "or kept >= BATCHES_MAX", "or kept < 0"),
        kind=Kind.GUARD,
        near=TIER_READER,
    ),
    plant(
        "work-an-address-takes-all-tier-reads",
        AREA,
        "one address has all reads of the store that may wait",
        (
            "runtime/tier/fair_places.py",
            "self._of[host] >= self._limit - self._of.total()",
            "self._of.total() >= self._limit",
        ),
        kind=Kind.GUARD,
        near=TIER_READS,
    ),
    plant(
        "work-tier-reads-are-never-given-back",
        AREA,
        "an address that has read counts as one that reads, for good",
        ("runtime/tier/reads.py", "            self._places.give_back(host)\n", ""),
        kind=Kind.CLEARED,
        near=TIER_READS,
    ),
    plant(
        "work-the-last-place-goes-to-who-has-all-others",
        AREA,
        "one address has all places, and a newcomer waits for its slow reads",
        (
            "runtime/tier/fair_places.py",
            "most = max(1, self._at_once - 1)",
            "most = max(1, self._at_once)",
        ),
        kind=Kind.RANGE,
        near=TIER_READS,
    ),
    plant(
        "work-a-cancelled-read-keeps-its-place",
        AREA,
        "a place that was granted to a read as it was cancelled is lost",
        (
            "runtime/tier/fair_places.py",
            "                self._leave(host)\n            raise",
            "                self._grant()\n            raise",
        ),
        kind=Kind.CLEARED,
        near=TIER_READS,
    ),
    plant(
        "work-a-ticket-is-good-for-ever",
        AREA,
        "an address that never comes again keeps everybody from searching",
        (
            "runtime/tier/fair_places.py",
            "if now - asked <= self._good_for",
            "if asked <= now",
        ),
        kind=Kind.CLEARED,
        near=TIER_READS,
    ),
    plant(
        "work-a-ticket-gives-no-turn",
        AREA,
        "whoever comes first searches, however often it has done so",
        ("runtime/tier/fair_places.py", "if is_free and first == host:", "if is_free:"),
        kind=Kind.ORDER,
        near=TIER_READS,
    ),
    plant(
        "work-members-of-a-closed-connection-stay",
        AREA,
        "members beyond the first ones of a connection stay when it has closed",
        (
            "remoting/front.py",
            "        while self.members.is_heard(connection):\n",
            "        if self.members.is_heard(connection):\n",
        ),
        kind=Kind.CLEARED,
        near=LARGE,
    ),
    plant(
        "work-a-closed-connection-gets-members",
        AREA,
        "members are noted for a connection that has closed meanwhile",
        (
            "remoting/handlers/clients.py",
            "while at < len(heartbeat.consumers) and not connection.is_closed:",
            "while at < len(heartbeat.consumers):",
        ),
        kind=Kind.ORDER,
        near=LARGE,
    ),
    plant(
        "work-a-long-heartbeat-is-read-from-the-next-request",
        AREA,
        "a long heartbeat is read after its buffer was used for the next request",
        (
            "remoting/handlers/clients.py",
            "command._replace(body=bytes(command.body))",
            "command._replace(body=command.body)",
        ),
        kind=Kind.STALE,
        near=LARGE,
    ),
    plant(
        "work-silent-members-behind-the-first-ones",
        AREA,
        "the ticks look at the same members again and again",
        (
            "remoting/members.py",
            "        if len(looked_at) < LOOKED_AT:\n",
            "        if looked_at:\n",
        ),
        kind=Kind.RANGE,
        near=MEMBERS,
    ),
    plant(
        "work-topics-are-looked-for-in-one-step",
        AREA,
        "topics are looked for in the subscriptions of all members in one turn",
        (
            "assignors/pools.py",
            "        spent += TOPIC_COST + len(by_subscription)\n",
            "        spent += TOPIC_COST\n",
        ),
        kind=Kind.GUARD,
        near=ASSIGNORS,
    ),
)
