"""Planted bugs between master and slaves: roles, alignment, links, taking and handing over."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import ALIGN, BROKER, LINKS, MEMBERS

ALIGNED = "replication/alignment.py"
SET = "replica/master_set.py"
FOLLOW = "replica/followed_set.py"
SESSION = "replica/slave_session.py"
SERVER = "runtime/ha/server.py"
DRIVER = "runtime/ha/set_driver.py"
MEMBER = "replica/replica_set.py"
FETCH = "broker/fetch/operation.py"

ROLES = (
    plant(
        "role-slave-takes-writes", "Leader epochs",
        "a broker that is not master any more takes writes",
        ("broker/append/append.py", "    if not member.is_master:\n        member.check_writable()\n", ""),
        kind=Kind.GUARD, near=BROKER,
    ),
    plant(
        "role-parked-writes-survive", "Leader epochs",
        "writes parked under a mastership that is over are answered by what comes after it",
        (MEMBER, "        self.log.follow()\n        self._refuse_parked()\n",
         "        self.log.follow()\n"),
        kind=Kind.CLEARED, near=MEMBERS,
    ),
    plant(
        "role-fenced-client-epoch-accepted", "Leader epochs",
        "a client with the leader epoch of an earlier mastership is served",
        ("broker/partitions.py",
         "    if requested < member.leader_epoch:\n"
         "        raise FencedLeaderEpoch(requested, member.leader_epoch)\n"
         "    raise UnknownLeaderEpoch",
         "    if requested < member.leader_epoch:\n        return\n    raise UnknownLeaderEpoch"),
        kind=Kind.GUARD, near=BROKER,
    ),
    plant(
        "role-unknown-client-epoch-accepted", "Leader epochs",
        "a client that knows a newer mastership is served by the replaced master",
        ("broker/partitions.py", "    raise UnknownLeaderEpoch(requested, member.leader_epoch)\n",
         "    return\n"),
        kind=Kind.GUARD, near=BROKER,
    ),
    plant(
        "role-diverging-consumer-not-told", "Leader epochs",
        "a consumer that has read what was cut off later is not told",
        ("broker/fetch/served.py",
         "    if end.leader_epoch < wanted.last_fetched_epoch or end.end_offset < wanted.fetch_offset:\n",
         "    if False:\n"),
        kind=Kind.GUARD, near=BROKER,
    ),
    plant(
        "role-unknown-epoch-answered", "Leader epochs",
        "an epoch above all known ones is answered as if it were known (KAFKA-6857)",
        ("replication/epochs.py",
         "        if leader_epoch > self.latest:\n            return None\n", ""),
        kind=Kind.GUARD, near=ALIGN,
    ),
    plant(
        "role-fenced-log-keeps-mastership", "Failed fsync",
        "a master whose log has failed stays master",
        (DRIVER, "        if image is None or image.replicas != (self._own_id,):\n            self._leave",
         "        if False:\n            self._leave"),
        kind=Kind.GUARD, near=("tests/runtime/test_ha_failed_log.py", *LINKS),
    ),
)  # fmt: skip

ALIGNING = (
    plant(
        "align-by-length", "Truncation",
        "a slave goes on at the shorter of the two ends, whatever masterships wrote them",
        (ALIGNED, "end = min(slave.end_of(at), master.end_of(master_at))",
         "end = min(slave.end_position, master.end_position)"),
        kind=Kind.EPOCH, near=ALIGN,
    ),
    plant(
        "align-keeps-own-tail", "Truncation",
        "a slave keeps what it has of an epoch beyond where the master's ends",
        (ALIGNED, "end = min(slave.end_of(at), master.end_of(master_at))", "end = slave.end_of(at)"),
        kind=Kind.GUARD, near=ALIGN,
    ),
    plant(
        "align-ignores-where-epochs-start", "Truncation",
        "two masterships with one number and different starts count as the same",
        (ALIGNED, "if master_at is not None and master.epochs[master_at] == entry:",
         "if master_at is not None:"),
        kind=Kind.GUARD, near=ALIGN,
    ),
    plant(
        "align-cuts-confirmed", "Truncation",
        "a slave cuts records that it knows to be confirmed",
        (ALIGNED, "if point < slave.confirm_position and not may_cut_confirmed:", "if False:"),
        kind=Kind.GUARD, near=ALIGN,
    ),
    plant(
        "align-throws-confirmed-away", "Truncation",
        "a slave without a common epoch throws away what it knows to be confirmed",
        (ALIGNED, "if slave.confirm_position <= _known_from(master) or may_cut_confirmed:", "if True:"),
        kind=Kind.GUARD, near=ALIGN,
    ),
    plant(
        "align-may-always-cut-confirmed", "Truncation",
        "every slave may cut confirmed records, also without an unclean election",
        ("controller/metadata/image.py", "return may_lose or log_epoch < self.unclean_epoch",
         "return True"),
        kind=Kind.GUARD, near=("tests/runtime/test_replica_manager.py", *LINKS),
    ),
    plant(
        "align-unclean-by-the-last-election", "Truncation",
        "an ordinary election after an unclean one hides that logs from before may be cut",
        ("controller/metadata/image.py", "return may_lose or log_epoch < self.unclean_epoch",
         "return may_lose or self.unclean_epoch == self.leader_epoch"),
        kind=Kind.EPOCH, near=("tests/controller/test_registration.py",),
    ),
    plant(
        "align-unclean-epoch-off-by-one", "Truncation",
        "a member that has followed the unclean master may still cut what it confirmed since",
        ("controller/metadata/image.py", "return may_lose or log_epoch < self.unclean_epoch",
         "return may_lose or log_epoch <= self.unclean_epoch"),
        kind=Kind.RANGE, near=("tests/controller/test_registration.py",),
    ),
    plant(
        "unclean-epoch-not-in-snapshots", "Truncation",
        "a metadata snapshot forgets which mastership was unclean",
        ("controller/metadata/snapshot.py",
         "        unclean_epoch=LeaderEpoch(replica_set.unclean_epoch),\n", ""),
        kind=Kind.SNAPSHOT, near=("tests/controller/test_registration.py",),
    ),
    plant(
        "unclean-epoch-lost-with-the-next", "Truncation",
        "the next mastership clears which one was unclean",
        ("controller/commands/masterships.py",
         "leader_epoch if may_lose else replica_set.unclean_epoch",
         "leader_epoch if may_lose else LeaderEpoch(-1)"),
        ("controller/metadata/replay_sets.py", "max(before.unclean_epoch, record.unclean_epoch)",
         "record.unclean_epoch"),
        kind=Kind.CLEARED, near=("tests/controller/test_registration.py",),
    ),
    plant(
        "align-begin-unchecked", "Truncation",
        "a master feeds a slave from wherever that says, also where the logs differ",
        (SESSION, "if not self.master_set.can_begin(self._shape, message.position):", "if False:"),
        kind=Kind.GUARD, near=LINKS,
    ),
)  # fmt: skip

LINKING = (
    plant(
        "ha-frames-of-older-mastership", "Leader epochs",
        "a slave takes frames that a replaced master has sent",
        (FOLLOW,
         "if message.leader_epoch != self.leader_epoch or self.state is State.CLOSED:",
         "if self.state is State.CLOSED:"),
        kind=Kind.GUARD, near=LINKS,
    ),
    plant(
        "ha-acknowledgement-of-older-mastership", "Leader epochs",
        "a master counts an acknowledgement that was meant for an earlier mastership",
        (SERVER,
         "if session is None or session.is_closed or session.leader_epoch != message.leader_epoch:",
         "if session is None or session.is_closed:"),
        kind=Kind.GUARD, near=LINKS,
    ),
    plant(
        "ha-hello-of-older-mastership", "Leader epochs",
        "a master greets a slave that follows an earlier or a later mastership",
        (SERVER,
         "        if hello.leader_epoch < newest:\n            return Reason.STALE_EPOCH\n"
         "        if hello.leader_epoch > newest:\n            return Reason.UNKNOWN_EPOCH\n", ""),
        kind=Kind.GUARD, near=LINKS,
    ),
    plant(
        "ha-unknown-replica-greeted", "Session ids",
        "a slave with another log than the registered one is fed and counted",
        (SERVER, "if recorded != hello.replica_id:", "if False:"),
        kind=Kind.GUARD, near=LINKS,
    ),
    plant(
        "ha-late-end-of-session", "Session ids",
        "the late end of a replaced session takes the slave's newest one away",
        (SET,
         "        if self.sessions.get(session.broker_id) is session:\n"
         "            del self.sessions[session.broker_id]\n",
         "        if self.sessions.pop(session.broker_id, None) is not None:\n"),
        kind=Kind.CLEARED, near=LINKS,
    ),
    plant(
        "ha-restarted-master-leads-at-once", "Election",
        "a restarted master leads its old epoch again, without election or agreement",
        (DRIVER, "if is_new or image.replicas == (self._own_id,):", "if True:"),
        kind=Kind.GUARD, near=("tests/runtime/test_replica_manager.py", *LINKS),
    ),
    plant(
        "ha-resuming-master-cuts-slaves", "Election",
        "a master that resumes tells slaves that have more its log, and they cut theirs to it",
        (SERVER, "return None if master_set.may_greet(hello.shape) else Reason.NOT_MASTER",
         "return None"),
        kind=Kind.GUARD, near=("tests/sim/test_directed_sets.py",),
    ),
    plant(
        "ha-resumes-without-everybody", "Election",
        "a restarted master resumes when one of the others agrees",
        (SET, "return all(other in self.sessions and", "return any(other in self.sessions and"),
        kind=Kind.GUARD, near=("tests/runtime/test_replica_manager.py", *LINKS),
    ),
    plant(
        "ha-lost-log-takes-role", "Election",
        "a broker whose log is another one than the registered takes its role all the same",
        (DRIVER, 'return recorded is not None and self.log_id not in {"", recorded}',
         "return False"),
        kind=Kind.GUARD, near=("tests/runtime/test_replica_manager.py", *LINKS),
    ),
    plant(
        "ha-reports-undurable-end", "Election",
        "a member is elected by bytes that it has not made durable",
        ("runtime/replica_manager.py", "log_end_position=own_log.durable_position,",
         "log_end_position=own_log.end_position,"),
        kind=Kind.ORDER, near=("tests/runtime/test_reported_ends.py", *LINKS),
    ),
    plant(
        "ha-transfer-before-caught-up", "Election",
        "a mastership is handed over before its successor holds everything",
        ("runtime/ha/transfer.py",
         "return session is not None and session.is_streaming and session.acknowledged >= end",
         "return session is not None and session.is_streaming and end >= 0"),
        kind=Kind.GUARD, near=("tests/runtime/test_ha_transfer.py", *LINKS),
    ),
    plant(
        "ha-transfer-takes-writes", "Election",
        "a master takes writes while its successor is being brought level",
        (MEMBER, "        self.is_master = False\n        self.log.follow()\n        self._pauses",
         "        self._pauses"),
        kind=Kind.GUARD, near=("tests/runtime/test_ha_transfer.py", *LINKS),
    ),
)  # fmt: skip

MUTANTS = (*ROLES, *ALIGNING, *LINKING)
