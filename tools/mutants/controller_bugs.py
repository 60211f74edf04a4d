"""Planted bugs of the controllers: elections, sync-state sets, sessions, terms."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import CONTROLLER, ELECTION, SESSIONS

ELECT = "controller/active/election.py"
ROUNDS = "controller/active/elections.py"
MASTERSHIPS = "controller/commands/masterships.py"
LIVENESS = "controller/active/liveness.py"
ACTIVE = "controller/active/controller.py"
SERVICE = "runtime/session/service.py"
CLIENT = "runtime/session/client.py"
SETS = "controller/commands/replica_sets.py"

ELECTIONS = (
    plant(
        "election-late-log-waits", "Election",
        "a member that has just opened its log leads only when the next try is due",
        (LIVENESS, "        return len(self.set_ids) > count\n", "        return False\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "elect-without-probing", "Election",
        "a master is elected by old heartbeats, without asking what the members hold now",
        (ROUNDS,
         "            for broker_id, reports in one.answers.items()\n",
         "            for broker_id, known in self._context.reports.items()\n"
         "            for reports in ({key: each.report for key, each in known.items()},)\n"),
        (ROUNDS, "        if one.waiting:\n            timeout_ms",
         "        one.waiting.clear()\n        if one.waiting:\n            timeout_ms"),
        kind=Kind.STALE, near=ELECTION,
    ),
    plant(
        "elect-shorter-log", "Election",
        "the member with the shortest log is elected",
        (ELECT, "best = max(answered, key=lambda one: _rank(ballot, one))",
         "best = min(answered, key=lambda one: _rank(ballot, one))"),
        kind=Kind.GUARD, near=ELECTION,
    ),
    plant(
        "elect-longest-of-older-epoch", "Election",
        "the longer log wins over the one with the newer mastership",
        (ELECT, "return report.last_log_epoch, report.log_end_position",
         "return report.log_end_position, report.last_log_epoch"),
        kind=Kind.EPOCH, near=ELECTION,
    ),
    plant(
        "elect-out-of-sync", "Election",
        "a member outside the sync-state set is elected",
        (ELECT, "pool = replica_set.replicas if ballot.is_unclean else replica_set.candidates",
         "pool = replica_set.replicas"),
        (ROUNDS, "for broker_id in replica_set.replicas if everybody else replica_set.candidates:",
         "for broker_id in replica_set.replicas:"),
        (MASTERSHIPS, "eligible = replica_set.replicas if wanted.is_unclean else replica_set.candidates",
         "eligible = replica_set.replicas"),
        kind=Kind.GUARD, near=ELECTION,
    ),
    plant(
        "elect-with-too-few-answers", "Election",
        "one answer is enough under policies that need several",
        (ELECT, "needed = 1 if ballot.is_unclean else answers_needed(replica_set)", "needed = 1"),
        kind=Kind.GUARD, near=ELECTION,
    ),
    plant(
        "elect-with-one-answer-fewer", "Election",
        "one answer fewer than the policy asks for is enough",
        (ELECT, "len(replica_set.candidates) - replica_set.copies_held + 1)",
         "len(replica_set.candidates) - replica_set.copies_held)"),
        kind=Kind.RANGE, near=ELECTION,
    ),
    plant(
        "elect-keeps-shorter-logs-in-step", "Election",
        "members with shorter logs stay in step under policies where they may lack records",
        (ELECT, "return tuple(sorted(one for one in answered if _log(ballot.reports[one]) == longest))",
         "return tuple(sorted(one for one in answered if longest))"),
        kind=Kind.GUARD, near=ELECTION,
    ),
    plant(
        "elect-wanted-in-spite-of-log", "Election",
        "an operator's candidate wins although it may lack confirmed records",
        (ELECT, "return _log(ballot.reports[winner]) == _log(ballot.reports[best])", "return True"),
        kind=Kind.GUARD, near=ELECTION,
    ),
    plant(
        "elect-unclean-without-flag", "Election",
        "an election that loses records is held though nobody allowed it",
        (ROUNDS, "is_allowed = one.is_unclean or replica_set.is_unclean_allowed",
         "is_allowed = True"),
        (ROUNDS, "everybody = one.is_unclean or replica_set.is_unclean_allowed", "everybody = True"),
        kind=Kind.GUARD, near=ELECTION,
    ),
    plant(
        "elect-lost-log", "Election",
        "a member that has lost its log is elected with the empty one",
        (ROUNDS, "            and replica_set.log_ids.get(broker_id) == report.log_id\n", ""),
        kind=Kind.GUARD, near=("tests/controller/test_lost_logs.py", *ELECTION),
    ),
    plant(
        "elect-failed-log", "Failed fsync",
        "a member whose log has failed is elected",
        (ROUNDS, "            and report.role != FAILED\n", ""),
        kind=Kind.GUARD, near=("tests/controller/test_lost_logs.py", *ELECTION),
    ),
    plant(
        "elect-lost-log-stays-in-step", "Sync-state set",
        "a member that registers another log stays in the sync-state set",
        (SETS, "lost = [] if known is None else _log_lost(context, replica_set, broker_id)",
         "lost: list[MetadataRecord] = []"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "lost-log-out-of-step-leaves-the-epoch", "Sync-state set",
        "a new log of a member that was not in step leaves the set's epoch as it was (KIP-903)",
        (SETS, "SyncStateSetEpoch(replica_set.sync_state_set_epoch + 1)",
         "replica_set.sync_state_set_epoch"),
        kind=Kind.EPOCH, near=CONTROLLER,
    ),
    plant(
        "joining-log-unchecked", "Sync-state set",
        "a member gets in step whatever log and process its master has judged (KIP-903)",
        (MASTERSHIPS, "        if judged.get(broker_id) != registered:\n", "        if False:\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "joining-process-unchecked", "Sync-state set",
        "a member gets in step on what an earlier process of its broker held (KIP-903)",
        (MASTERSHIPS, "        if judged.get(broker_id) != registered:\n",
         "        if judged.get(broker_id, (None,))[0] != registered[0]:\n"),
        kind=Kind.EPOCH, near=("tests/controller/test_membership.py", *CONTROLLER),
    ),
    plant(
        "joining-checked-against-its-masters-broker-epoch", "Sync-state set",
        "the process of whoever joins is compared with the master's",
        (MASTERSHIPS, "        broker = context.image.brokers[broker_id]\n        if broker.is_draining",
         "        broker = context.image.brokers[command.master]\n        if broker.is_draining"),
        kind=Kind.EPOCH, near=CONTROLLER,
    ),
    plant(
        "set-as-it-is-gets-no-epoch", "Sync-state set",
        "asking for the set as it stands ends no change that is on its way",
        (MASTERSHIPS, "    _check_added(context, replica_set, command, wanted)\n",
         "    if wanted == replica_set.sync_state_set:\n"
         "        return Result(replica_set.sync_state_set_epoch)\n"
         "    _check_added(context, replica_set, command, wanted)\n"),
        kind=Kind.EPOCH, near=("tests/controller/test_membership.py", *CONTROLLER),
    ),
    plant(
        "elect-floor-ignored", "Election",
        "after a change of members or policy an election may miss what was confirmed before it",
        ("controller/commands/overlap.py", "    if held >= changed.copies_needed:\n", "    if True:\n"),
        kind=Kind.GUARD, near=("tests/controller/test_overlap.py", *CONTROLLER),
    ),
    plant(
        "elect-floor-counts-the-lost", "Election",
        "a lost copy still counts for what an election may rely on",
        ("controller/commands/overlap.py", "held = before.copies_held - (lost in before.candidates)",
         "held = before.copies_held"),
        kind=Kind.STALE, near=("tests/controller/test_overlap.py", *CONTROLLER),
    ),
    plant(
        "transfer-when-not-ready", "Election",
        "a mastership moves although the master says that the target lacks records",
        ("controller/active/transfers.py", "        if not answer.is_ready:\n", "        if False:\n"),
        kind=Kind.GUARD, near=("tests/controller/test_transfers.py",),
    ),
    plant(
        "transfer-by-somebody-else", "Election",
        "any broker can say that a transfer is ready",
        ("controller/active/transfers.py",
         "if one is None or one.is_submitted or one.master != broker_id:",
         "if one is None or one.is_submitted:"),
        kind=Kind.GUARD, near=("tests/controller/test_late_words.py", "tests/controller/test_transfers.py"),
    ),
)  # fmt: skip

EPOCHS = (
    plant(
        "metadata-change-of-stale-master", "Leader epochs",
        "a replaced master's change of the sync-state set is recorded",
        (MASTERSHIPS,
         "    if command.leader_epoch != replica_set.leader_epoch:\n"
         "        raise StaleLeaderEpoch(command.leader_epoch, replica_set.leader_epoch)\n", ""),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "metadata-change-of-somebody-else", "Leader epochs",
        "a broker that is not the master changes the sync-state set",
        (MASTERSHIPS, "    if command.master != replica_set.master:\n", "    if False:\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "metadata-change-over-a-newer-one", "Leader epochs",
        "a late change of the sync-state set undoes a newer one",
        (MASTERSHIPS,
         "    if command.sync_state_set_epoch != replica_set.sync_state_set_epoch:\n"
         "        raise StaleSyncStateSet(command.sync_state_set_epoch,"
         " replica_set.sync_state_set_epoch)\n", ""),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "metadata-choice-that-was-overtaken", "Leader epochs",
        "a mastership begins by a choice that was made before the last change",
        (MASTERSHIPS,
         "        _check_epochs(replica_set, wanted.leader_epoch, wanted.sync_state_set_epoch)\n", ""),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "metadata-dead-member-in-step", "Sync-state set",
        "a fenced broker gets into a sync-state set",
        (MASTERSHIPS, "        _check_able(context, broker_id)\n", ""),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "metadata-two-masters-in-one-epoch", "Leader epochs",
        "a second master gets the leader epoch of the first",
        (MASTERSHIPS, "leader_epoch = LeaderEpoch(replica_set.leader_epoch + 1)",
         "leader_epoch = LeaderEpoch(replica_set.leader_epoch + (replica_set.master == NO_MASTER))"),
        ("controller/metadata/replay_sets.py", "        record.leader_epoch > before.leader_epoch,\n",
         "        record.leader_epoch >= before.leader_epoch,\n"),
        kind=Kind.EPOCH, near=CONTROLLER,
    ),
    plant(
        "metadata-restarted-master-stays", "Election",
        "a master's new process keeps the mastership of the old one",
        ("controller/commands/brokers.py",
         "    if known is not None and known.incarnation != command.incarnation:\n",
         "    if False:\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "metadata-fences-a-newer-process", "Session ids",
        "the eviction of a dead process fences the one that has registered since",
        (MASTERSHIPS,
         "        if broker_id in brokers and brokers[broker_id].broker_epoch == broker_epoch\n",
         "        if broker_id in brokers\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "level-raised-over-a-silent-broker", "Feature levels",
        "the level is raised though nobody knows what a broker reads",
        ("runtime/session/service_features.py", "            if process.levels is None:\n",
         "            if process.levels is None:\n                continue\n            if False:\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "level-lowered-and-entries-kept", "Feature levels",
        "after a lowering of the level, entries that an earlier release can not read are given to it",
        ("runtime/controller_driver.py",
         "        replace = self._log.forget if self._is_level_lowered else self._log.trim\n",
         "        replace = self._log.trim\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "level-lowered-below-what-stands", "Feature levels",
        "the level is lowered though configuration stands that the lower one can not hold",
        ("controller/commands/features.py",
         "    if feature == METADATA and command.is_lowering and (above := _above(image, level)):\n",
         "    if False and (above := _above(image, level)):\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "level-not-asked-by-a-command", "Feature levels",
        "a command writes a record that the level does not allow",
        ("controller/controller.py", "        check_level(self.image, result.records)\n", ""),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
)  # fmt: skip

SESSION_IDS = (
    plant(
        "session-stale-close-evicts", "Session ids",
        "the late close of an old session evicts a broker that has a newer one",
        (LIVENESS,
         "if session is None or session.session_id != session_id or not session.is_open:",
         "if session is None or not session.is_open:"),
        kind=Kind.GUARD, near=SESSIONS,
    ),
    plant(
        "session-late-close-drops-newer", "Session ids",
        "the end of a replaced link takes the newer session away",
        (SERVICE, "        if self._sessions.get(broker_id) is session:\n            del",
         "        if broker_id in self._sessions:\n            del"),
        kind=Kind.CLEARED, near=SESSIONS,
    ),
    plant(
        "session-older-one-taken", "Session ids",
        "a link that was opened earlier and arrives later replaces the newer one",
        (SERVICE, "elif channel.session_id < before.channel.session_id:", "elif False:"),
        kind=Kind.GUARD, near=SESSIONS,
    ),
    plant(
        "session-of-another-process-taken", "Session ids",
        "a second process under the same id takes the broker's session",
        (SERVICE, "elif not _is_same_process(channel.session_id, before.channel.session_id):",
         "elif False:"),
        kind=Kind.GUARD, near=SESSIONS,
    ),
    plant(
        "session-heartbeat-of-older-session", "Session ids",
        "a heartbeat that was sent in an earlier session keeps a dead broker alive",
        (SERVICE,
         "        if heartbeat.session_id != session.channel.session_id:\n            return\n", ""),
        (LIVENESS,
         "if session is None or session.session_id != session_id or not session.is_open:",
         "if session is None or not session.is_open:"),
        kind=Kind.GUARD, near=SESSIONS,
    ),
    plant(
        "session-word-of-replaced-session", "Session ids",
        "answers that come over a replaced session count",
        (SERVICE, "                if self._sessions.get(session.broker_id) is session:\n",
         "                if session.broker_id in self._sessions:\n"),
        kind=Kind.EPOCH, near=SESSIONS,
    ),
    plant(
        "probe-answer-unasked", "Session ids",
        "an answer to a probe counts twice, late, or unasked",
        (ROUNDS, "if one is None or one.is_submitted or broker_id not in one.waiting:",
         "if one is None or one.is_submitted:"),
        (ROUNDS, "        del one.waiting[broker_id]\n        one.answers",
         "        one.waiting.pop(broker_id, None)\n        one.answers"),
        kind=Kind.GUARD, near=("tests/controller/test_late_words.py", *ELECTION),
    ),
)  # fmt: skip

TERMS = (
    plant(
        "term-probe-of-replaced-controller", "Controller terms",
        "a broker binds itself by the question of a controller that was replaced",
        (CLIENT, "if message.controller_epoch >= self._tracker.controller_epoch:", "if True:"),
        kind=Kind.GUARD, near=SESSIONS,
    ),
    plant(
        "term-lease-by-replaced-controller", "Controller terms",
        "the answers of a replaced controller keep a master's lease",
        (CLIENT, "        is_active = answer.active_id == session.controller_id == tracker.active_id\n"
         "        if not is_active or answer.controller_epoch < tracker.controller_epoch:\n",
         "        is_active = answer.active_id == session.controller_id\n        if not is_active:\n"),
        kind=Kind.GUARD, near=("tests/runtime/test_replaced_controllers.py", *SESSIONS),
    ),
    plant(
        "term-replaced-controller-believed", "Controller terms",
        "a broker believes who is active from a controller of an earlier term",
        ("runtime/session/active.py", "is_newer = controller_epoch > self.controller_epoch",
         "is_newer = active_id >= 0"),
        kind=Kind.EPOCH, near=("tests/runtime/test_replaced_controllers.py", *SESSIONS),
    ),
    plant(
        "term-rounds-outlive-leadership", "Controller terms",
        "an election begun in an earlier term goes on after another controller led",
        (ACTIVE, "        elif was_active:\n            self._forget()\n", ""),
        (ACTIVE, "    def _activate(self, term: ControllerEpoch) -> None:\n        self._forget()\n",
         "    def _activate(self, term: ControllerEpoch) -> None:\n"),
        kind=Kind.CLEARED, near=CONTROLLER,
    ),
    plant(
        "term-sleeper-keeps-leases", "Controller terms",
        "a controller that stood still, and may be replaced, keeps masters' leases",
        (ACTIVE, "        if self._own_pauses.was_asleep(context.now_ms):\n", "        if False:\n"),
        kind=Kind.GUARD, near=CONTROLLER,
    ),
    plant(
        "term-sleeper-evicts-everybody", "Controller terms",
        "a controller that stood still takes its own pause for the brokers' silence",
        ("controller/active/own_pauses.py",
         "        return max(0, now_ms - self._tick_ms - 2 * self._interval_ms)\n",
         "        return 0\n"),
        kind=Kind.STALE, near=("tests/controller/test_liveness.py", *CONTROLLER),
    ),
    plant(
        "term-new-active-evicts-everybody", "Controller terms",
        "a new active controller takes brokers that it never heard of for dead",
        (ACTIVE,
         "        for broker_id in context.image.brokers:\n"
         "            context.liveness.expect(broker_id, context.now_ms)\n", ""),
        kind=Kind.STALE, near=CONTROLLER,
    ),
    plant(
        "term-proposal-outlives-leadership", "Controller terms",
        "a command of a lost leadership is answered by another leader's entry at its index",
        ("runtime/raft/proposals.py", "        if known.term == term:\n", "        if True:\n"),
        ("runtime/raft/raft_log.py", "            self._proposals.fail_all(error)\n            self._reads",
         "            self._reads"),
        kind=Kind.EPOCH, near=("tests/runtime/test_raft_log.py",),
    ),
)  # fmt: skip

MUTANTS = (*ELECTIONS, *EPOCHS, *SESSION_IDS, *TERMS)
