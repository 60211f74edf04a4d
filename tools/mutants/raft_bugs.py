"""Planted bugs of consensus: votes, commits, reads, members, and the files behind them.

Source: the Raft paper and thesis; the mistakes are those that TLA+ traces of etcd and Redpanda,
and the lists of Jepsen, tell of most.
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant
from .suites import RAFT, RAFT_FILES

LEADER = "raft/roles/leader.py"
VOTES = "raft/roles/votes.py"
FOLLOWER = "raft/roles/follower.py"
LOG = "raft/log.py"
ROUNDS = "raft/roles/rounds.py"
STORAGE = "runtime/raft/storage.py"

CORE = (
    plant(
        "raft-commit-by-counting-old-terms", "Raft",
        "a leader commits an entry of an earlier term because a majority has it (figure 8)",
        (LEADER, "index > before and log.term(index) == core.term and log", "index > before and log"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-vote-for-shorter-log", "Raft",
        "a vote goes to a candidate whose log is behind the voter's",
        (VOTES, "return may and core.log.is_up_to_date(request.last_index, request.last_term)",
         "return may"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-vote-twice", "Raft",
        "a member votes for two candidates of one term",
        (VOTES, "is_free = core.voted_for == NO_PEER and core.leader_id == NO_PEER",
         "is_free = True"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-vote-in-spite-of-leader", "Raft",
        "a member that hears its leader votes for somebody else (disruptive servers)",
        (VOTES, "return is_leader or core.ticks < core.promised_until_tick", "return False"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-pre-vote-off", "Raft",
        "a member that was cut off comes back with a term that deposes a good leader",
        ("raft/roles/current.py",
         "candidate = Candidate(core, is_pre_vote=True, is_transfer=False)\n"
         "        self.current = candidate\n        candidate.begin()\n\n    def stand",
         "self.stand(is_transfer=False)\n\n    def stand"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-check-quorum-off", "Raft",
        "a leader that no majority answers goes on leading",
        (LEADER, "if not self._hears_majority():", "if False:"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-commit-beyond-match", "Raft",
        "a follower commits entries that it was not told to be equal to the leader's",
        (FOLLOWER, "log.commit_to(min(message.commit_index, last_index))",
         "log.commit_to(min(message.commit_index, log.last_index))"),
        kind=Kind.RANGE, near=RAFT,
    ),
    plant(
        "raft-truncate-committed", "Raft",
        "a late message cuts entries behind it, also committed ones",
        (LOG, "if known == entry.term or entry.index <= self._base_index:",
         "if entry.index <= self._base_index:"),
        (LOG, "last_index >= self.commit_index,\n            \"a committed", "True,\n            \"a committed"),
        (FOLLOWER, "if message.previous_index < log.commit_index:", "if False:"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-late-message-cuts", "Raft",
        "a late message cuts the newer entries behind the ones that it repeats",
        (LOG, "if known == entry.term or entry.index <= self._base_index:",
         "if entry.index <= self._base_index:"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-snapshot-of-wrong-index", "Raft",
        "a snapshot names an entry behind the one that its state ends with",
        ("raft/raft.py", "            index=index, term=term, configuration",
         "            index=log.applied_index, term=term, configuration"),
        kind=Kind.SNAPSHOT, near=RAFT,
    ),
    plant(
        "raft-snapshot-of-wrong-term", "Raft",
        "a snapshot carries the present term in place of its last entry's",
        ("raft/raft.py", "term = log.term(index)\n        assert term",
         "term = self._core.term\n        assert term"),
        kind=Kind.EPOCH, near=RAFT,
    ),
    plant(
        "raft-majority-is-half", "Raft",
        "half of an even number of voters counts as a majority",
        ("raft/quorum.py", "return voter_count // 2 + 1", "return (voter_count + 1) // 2"),
        kind=Kind.RANGE, near=RAFT,
    ),
    plant(
        "raft-two-changes-at-once", "Raft",
        "a second change of the voters begins before the first is committed",
        ("raft/roles/members.py", "if log.configurations.latest_index > log.commit_index:", "if False:"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-change-before-own-commit", "Raft",
        "a leader changes the voters before it committed an entry of its own term",
        ("raft/roles/members.py", "if log.term(log.commit_index) != core.term:", "if False:"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-configuration-not-taken-back", "Raft",
        "a configuration stays in force though its entry was cut off",
        (LOG, "        self.configurations.truncate(last_index)\n", ""),
        kind=Kind.CLEARED, near=RAFT,
    ),
    plant(
        "raft-read-without-round", "Raft",
        "a leader answers reads without asking whether it still leads",
        (ROUNDS, "while self._waiting and self._waiting[0][0] <= confirmed:",
         "while self._waiting:"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-read-before-own-commit", "Raft",
        "a new leader reads before it knows how far its predecessor committed",
        (ROUNDS, "if not self._asked or log.term(log.commit_index) != self._core.term:",
         "if not self._asked:"),
        kind=Kind.GUARD, near=RAFT,
    ),
)  # fmt: skip

TERMS = (
    plant(
        "raft-term-of-sender-ignored", "Controller terms",
        "messages of a leader of an earlier term are followed",
        ("raft/roles/inbox.py", "        if _is_too_old(core, message):\n            return\n",
         "        pass\n"),
        kind=Kind.GUARD, near=RAFT,
    ),
    plant(
        "raft-commit-mark-of-other-term", "Controller terms",
        "the commit mark counts although the entry there is of another term",
        (STORAGE, "commit_index = index if entry.term == term else commit_index",
         "commit_index = index"),
        kind=Kind.EPOCH, near=RAFT_FILES,
    ),
    plant(
        "raft-snapshot-of-other-history", "Controller terms",
        "entries behind a snapshot are kept although the snapshot is of another history",
        (STORAGE, "return at == 0 or (at <= len(found.entries) and found.entries[at - 1].term == snapshot.term)",
         "return at == 0 or at <= len(found.entries)"),
        kind=Kind.EPOCH, near=RAFT_FILES,
    ),
)  # fmt: skip

DURABILITY = (
    plant(
        "raft-vote-leaves-before-disk", "Left-out fsync: Raft",
        "a vote is given before it is durable, and given again after a crash",
        (VOTES, "core.send_persisted(request.sender, response)",
         "core.send(request.sender, response)"),
        kind=Kind.ORDER, near=RAFT,
    ),
    plant(
        "raft-vote-not-written", "Left-out fsync: Raft",
        "a term or vote without entries is never written to the disk",
        ("raft/raft.py",
         "must_sync=snapshot is not None or bool(entries) or self._is_vote_new(hard_state),",
         "must_sync=snapshot is not None or bool(entries),"),
        kind=Kind.SNAPSHOT, near=(*RAFT, *RAFT_FILES),
    ),
    plant(
        "raft-own-vote-counts-before-disk", "Left-out fsync: Raft",
        "a candidate counts its own vote, and asks for others', before that is durable",
        ("raft/roles/candidate.py", "        if self._is_pre_vote:\n            self._count(self._core",
         "        if True:\n            self._count(self._core"),
        ("raft/roles/candidate.py", "send = core.send if self._is_pre_vote else core.send_persisted",
         "send = core.send"),
        kind=Kind.ORDER, near=RAFT,
    ),
    plant(
        "raft-follower-answers-before-disk", "Left-out fsync: Raft",
        "a follower says that it has entries before they are durable",
        (FOLLOWER, "core.send_persisted(message.sender, self._success(message, match_index))",
         "core.send(message.sender, self._success(message, match_index))"),
        kind=Kind.ORDER, near=RAFT,
    ),
    plant(
        "raft-heartbeat-claims-undurable", "Left-out fsync: Raft",
        "the answer to a heartbeat claims entries that are not durable yet",
        (FOLLOWER, "known = min(match_index, core.log.stable_index)", "known = match_index"),
        kind=Kind.ORDER, near=RAFT,
    ),
    plant(
        "raft-leader-counts-undurable", "Left-out fsync: Raft",
        "a leader counts its own copy before it is durable",
        (LEADER, "log.stable_index if voter == core.own_id", "log.last_index if voter == core.own_id"),
        kind=Kind.ORDER, near=RAFT,
    ),
    plant(
        "raft-rewritten-entry-counts-as-durable", "Left-out fsync: Raft",
        "a write under way makes durable what has replaced its entries meanwhile",
        (LOG, "self._writes = deque(min(written, last_index) for written in self._writes)", "pass"),
        kind=Kind.CLEARED, near=RAFT,
    ),
    plant(
        "raft-applied-before-durable", "Left-out fsync: Raft",
        "committed entries are applied before they are durable here",
        (LOG, "last = min(self.commit_index, self.stable_index)", "last = self.commit_index"),
        kind=Kind.ORDER, near=RAFT,
    ),
    plant(
        "raft-snapshot-answered-before-disk", "Left-out fsync: Raft",
        "an installed snapshot is acknowledged before it is durable",
        ("raft/roles/snapshot_receiver.py",
         "self._core.send_persisted(chunk.sender, self._success(snapshot.index))",
         "self._core.send(chunk.sender, self._success(snapshot.index))"),
        kind=Kind.ORDER, near=RAFT,
    ),
    plant(
        "raft-driver-sends-before-disk", "Left-out fsync: Raft",
        "the driver sends answers before the disk has what they speak of",
        ("runtime/raft/raft_log.py", "            self._send(ready.messages)\n",
         "            self._send(ready.messages)\n            self._send(ready.messages_persisted)\n"),
        ("runtime/raft/raft_log.py", "        self._send(ready.messages_persisted)\n        if",
         "        if"),
        kind=Kind.ORDER, near=("tests/runtime/test_raft_log.py", "tests/controller/test_raft_log_contract.py"),
    ),
    plant(
        "raft-entries-not-synced", "Left-out fsync: Raft",
        "hard state and entries stay in the page cache",
        (STORAGE, "        self._sync(self._file)\n        self._state = state\n",
         "        self._state = state\n"),
        kind=Kind.GUARD, near=RAFT_FILES,
    ),
    plant(
        "raft-replaced-file-not-synced", "Left-out fsync: Raft",
        "a new snapshot or log takes its place before it is durable (metadata replace)",
        (STORAGE, "file.write(0, parts)\n            file.sync()", "file.write(0, parts)"),
        kind=Kind.GUARD, near=RAFT_FILES,
    ),
    plant(
        "raft-log-cut-before-snapshot", "Left-out fsync: Raft",
        "the log loses its entries before the snapshot that stands for them is there",
        (STORAGE, "        self._replace_snapshot(snapshot)\n        found = read_file",
         "        found = read_file"),
        (STORAGE, "self._rewrite(self._state, snapshot, kept)",
         "self._rewrite(self._state, snapshot, kept)\n        self._replace_snapshot(snapshot)"),
        kind=Kind.ORDER, near=RAFT_FILES,
    ),
    plant(
        "raft-found-not-made-durable", "Left-out fsync: Raft",
        "a started member counts entries as durable that only the page cache has",
        (STORAGE, "        if end == synced:\n            return\n", "        return\n"),
        kind=Kind.GUARD, near=RAFT_FILES,
    ),
    plant(
        "raft-found-not-written-again", "Failed fsync",
        "what a start found behind a failed sync is only synced, which writes nothing any more",
        (STORAGE, "            file.write(synced, [file.read(synced, end - synced)])\n",
         "            pass\n"),
        kind=Kind.GUARD, near=RAFT_FILES,
    ),
    plant(
        "raft-cut-tail-not-synced", "Left-out fsync: Raft",
        "the torn end of the log is cut without a sync, and may come back behind newer entries",
        (STORAGE, "            file.truncate(found.end_position)\n            file.sync()\n",
         "            file.truncate(found.end_position)\n"),
        kind=Kind.GUARD, near=RAFT_FILES,
    ),
    plant(
        "raft-goes-on-after-failed-fsync", "Failed fsync",
        "the metadata log acknowledges entries after its fsync has failed",
        (STORAGE, 'raise MetadataLogFenced(f"fsync failed: {error}") from error', "return"),
        kind=Kind.GUARD, near=RAFT_FILES,
    ),
)  # fmt: skip

FILES = (
    plant(
        "raft-frame-checksum-unchecked", "Checksums",
        "a damaged frame of the metadata log is read as if it were whole",
        ("runtime/raft/log_file.py",
         "    if crc32c(view[at + _CRC.size : end]) != crc:\n        return None\n", ""),
        kind=Kind.GUARD, near=("tests/runtime/test_raft_storage.py",),
    ),
    plant(
        "raft-damage-in-the-middle-is-cut", "Recovery",
        "damage in front of whole entries is taken for an unfinished write and cut",
        ("runtime/raft/log_file.py", "    _check_tail(view, at)\n", ""),
        kind=Kind.GUARD, near=RAFT_FILES,
    ),
    plant(
        "raft-rot-at-the-end-is-cut", "Recovery",
        "damage in the last durable write, maybe a vote, is taken for a torn end and cut",
        (STORAGE, "        if end < synced:\n", "        if False:\n"),
        kind=Kind.GUARD, near=RAFT_FILES,
    ),
    plant(
        "raft-compaction-loses-an-entry", "Recovery",
        "the rewritten log lacks the first entry behind its snapshot",
        (STORAGE, "if entry.index > snapshot.index]\n        self._rewrite",
         "if entry.index > snapshot.index + 1]\n        self._rewrite"),
        kind=Kind.RANGE, near=RAFT_FILES,
    ),
    plant(
        "raft-group-write-keeps-replaced", "Raft",
        "entries that a later one of the same write replaces are written as well",
        ("runtime/raft/disk_queue.py",
         "del merged[max(0, entries[0].index - merged[0].index) :]", "pass"),
        kind=Kind.CLEARED, near=("tests/runtime/test_disk_queue.py", "tests/runtime/test_raft_log.py"),
    ),
)  # fmt: skip

MUTANTS = (*CORE, *TERMS, *DURABILITY, *FILES)
