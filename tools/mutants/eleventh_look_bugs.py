"""Bugs planted by a reader who had not written the code: archives, HTTP, recalls, calls, quotas.

Each was planted before anybody looked at which tests there are. The tests nearest to the code, and
those of its room that come to it, saw 91 of 181 at first. What they miss most are bounds at
equality, counts after a refusal, and the order of two steps where the second may fail. Those with a
test of their own by now, of which none saw them:

    abortable-a-version-later
    access-key-that-is-used-gives-way
    addresses-stay-limited
    all-fail-where-one-does
    batch-of-one-too-many
    body-of-the-bound-is-too-large
    bucket-that-is-used-goes-first
    bytes-of-chunks-that-were-committed
    bytes-of-the-batch-before
    chunk-that-ends-where-it-begins
    chunks-by-their-newest-record
    codes-of-another-entry
    consumer-that-goes-back-was-sent-back
    coordinator-asked-once-more
    decided-again-at-its-bound
    decided-ahead-of-what-was-due
    decision-at-the-offset-is-before-it
    due-now-is-recalled
    end-of-a-watch-is-news
    ends-of-what-was-asked-for
    floor-of-an-earlier-mastership
    floor-while-a-level-is-read
    fold-from-noon-is-over-at-noon
    forgotten-all-but-one
    furthest-time-is-not-recalled
    gap-at-the-start-is-not-told
    guard-of-another-is-ones-own
    guard-of-before-while-it-ends
    guard-outlives-a-failed-append
    handle-of-a-digit-less
    header-alone-is-of-no-transaction
    idle-bucket-becomes-the-youngest
    ids-of-the-first-entry-alone
    keeps-nothing-and-counts-as-for-ever
    key-in-a-batch-of-others
    last-byte-that-may-be-held
    last-shard-is-the-position
    late-answer-brings-the-start-back
    late-by-what-others-lead
    lease-from-the-answer-on
    master-with-nothing-in-the-tier-is-not-believed
    message-counts-as-sent-before-it-is
    message-of-the-bound-is-too-large
    more-codes-than-changes
    more-codes-than-one-member
    more-codes-than-partitions
    one-handshake-too-many
    one-more-than-fills-the-bound
    one-request-too-many-waits
    one-ticket-too-many
    one-watch-too-many
    owed-of-what-was-there-before
    prefix-with-a-slash
    prunes-leavings-stay-after-a-run
    put-back-counts-as-moved
    ranges-that-meet-count-as-before
    recalls-of-a-log-that-was-replaced
    recalls-of-an-earlier-mastership
    recalls-that-failed-to-load-are-loading
    receive-ends-with-the-retries
    refusal-keeps-the-route
    refused-bytes-are-given-back
    refused-entry-is-the-last-one
    refused-recalls-count
    renewed-ends-with-its-first-time
    replay-at-the-start-was-pruned
    room-a-moment-too-late
    route-for-twice-its-time
    rows-of-the-whole-chunk
    runs-behind-one-that-does-not-fit
    sent-back-counts-whatever-became
    settled-counts-before-it-is
    settled-wakes-only-the-full
    silent-master-asked-from-its-time-out-on
    ticket-ends-before-its-last-moment
    ticket-is-gone-while-the-place-is-taken
    time-of-the-newest-record-is-behind-it
    time-to-read-is-over-for-good
    times-of-mutes-add-up
    topic-ids-a-version-later
    unnamed-files-count-as-damaged
    wake-forgets-what-it-mutes
    who-asks-again-goes-to-the-end
    window-that-is-used-goes-first
    window-that-overlaps-stays
"""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

MUTANTS = (
    plant("fold-begins-where-it-said-it-ended", "Audit", "after the wall clock went back a fold is over as it begins, for as long as it went back",
          ("audit/fold.py", "        self.began_ms = wall_ms\n        return taken", "        self.began_ms = taken.ended_ms\n        return taken"),
          kind=Kind.STALE, near=("tests/audit/test_fold.py",)),
    plant("ranges-that-meet-count-as-before", "Audit", "two ranges of rows that became one count as two, so that all is forgotten too early",
          ("audit/seen.py", "self._count += 1 - follows - precedes", "self._count += not (follows or precedes)"),
          kind=Kind.SNAPSHOT, near=("tests/audit/test_seen.py",)),
    plant("forgotten-all-but-one", "Audit", "after all was forgotten there is room for a range less",
          ("audit/seen.py", "            self._count = 0\n            self.forgot", "            self._count = 1\n            self.forgot"),
          kind=Kind.CLEARED, near=("tests/audit/test_seen.py",)),
    plant("fold-from-noon-is-over-at-noon", "Audit", "a fold that begins when one ends lasts for no time",
          ("audit/fold.py", "return self.began_ms - self.began_ms % self._length_ms + self._length_ms", "return -(-self.began_ms // self._length_ms) * self._length_ms"),
          kind=Kind.RANGE, near=("tests/audit/test_fold.py",)),
    plant("owed-of-what-was-there-before", "Quotas", "what is owed after a pause is taken from the tokens of before it",
          ("quotas/tokens.py", "self._tokens = self.tokens(now_ms) - count", "self._tokens -= count"),
          kind=Kind.STALE, near=("tests/quotas/test_rates.py",)),
    plant("bucket-that-is-used-goes-first", "Quotas", "the bucket that was found last gives way",
          ("quotas/table.py", "            self._by_owner.move_to_end(owner)\n            bucket.bound = bound", "            self._by_owner.move_to_end(owner, last=False)\n            bucket.bound = bound"),
          kind=Kind.ORDER, near=("tests/quotas/test_table.py",)),
    plant("idle-bucket-becomes-the-youngest", "Quotas", "a bucket in use gives way, and the idle one stays",
          ("quotas/table.py", "            if bucket.is_idle(now_ms):\n                break\n            self._by_owner.move_to_end(owner)\n", "            self._by_owner.move_to_end(owner)\n            if bucket.is_idle(now_ms):\n                break\n"),
          kind=Kind.ORDER, near=("tests/quotas/test_table.py",)),
    plant("addresses-stay-limited", "Quotas", "addresses are looked up after their last quota has gone",
          ("quotas/table.py", "self.limits_addresses = QuotaKey.CONNECTIONS in keys", "self.limits_addresses = self.limits_addresses or QuotaKey.CONNECTIONS in keys"),
          kind=Kind.CLEARED, near=("tests/quotas/test_table.py",)),
    plant("wake-forgets-what-it-mutes", "Connections", "who is muted again by its own wake is not muted",
          ("net/answers/muted.py", "        del self._timers[connection]\n        wake()", "        wake()\n        del self._timers[connection]"),
          kind=Kind.ORDER, near=("tests/net/test_muted.py",)),
    plant("times-of-mutes-add-up", "Connections", "a longer time begins when the shorter one would have ended",
          ("net/answers/muted.py", "            known.timer.cancel()\n        timer = self._loop.call_at(due, self._wake", "            due += known.due - self._loop.time()\n            known.timer.cancel()\n        timer = self._loop.call_at(due, self._wake"),
          kind=Kind.STALE, near=("tests/net/test_muted.py",)),
    plant("ticket-ends-before-its-last-moment", "Tier reads", "a ticket is over in the moment to which it is good",
          ("runtime/tier/fair_places.py", "now - asked <= self._good_for", "now - asked < self._good_for"),
          kind=Kind.RANGE, near=("tests/runtime/test_tier_reads.py",)),
    plant("one-ticket-too-many", "Tier reads", "an address more than may wait has a turn",
          ("runtime/tier/fair_places.py", "if host in self._asked or len(self._asked) < self._most:", "if host in self._asked or len(self._asked) <= self._most:"),
          kind=Kind.RANGE, near=("tests/runtime/test_tier_reads.py",)),
    plant("who-asks-again-goes-to-the-end", "Tier reads", "an address that comes again loses its turn",
          ("runtime/tier/fair_places.py", "            self._asked[host] = now\n        return False", "            self._asked.pop(host, None)\n            self._asked[host] = now\n        return False"),
          kind=Kind.ORDER, near=("tests/runtime/test_tier_reads.py",)),
    plant("ticket-is-gone-while-the-place-is-taken", "Tier reads", "whose turn it is loses the ticket by asking too early",
          ("runtime/tier/fair_places.py", "        if is_free and first == host:\n            self._asked.pop(host, None)\n            return True", "        if first == host:\n            self._asked.pop(host, None)\n            if is_free:\n                return True"),
          kind=Kind.CLEARED, near=("tests/runtime/test_tier_reads.py",)),
    plant("consumer-is-kept-as-long-as-it-asks", "Slave reads", "a consumer that came back once is never sent to a slave again",
          ("broker/fetch/sent_away.py", "self._known[place] = offset, kept_until_ms", "self._known[place] = offset, now_ms + KEPT_MS if is_kept else 0"),
          kind=Kind.CLEARED, near=("tests/broker/test_tier_at_slaves.py",)),
    plant("consumer-that-goes-back-was-sent-back", "Slave reads", "a consumer that goes to an earlier offset counts as unserved",
          ("broker/fetch/sent_away.py", "not is_kept and sent_with == offset:", "not is_kept and sent_with >= offset:"),
          kind=Kind.RANGE, near=("tests/broker/test_told_windows.py",)),
    plant("newer-master-tells-for-an-older-one", "Slave reads", "a slave of an earlier mastership is told what the present one has",
          ("broker/tier/run_answers.py", "member.leader_epoch == question.leader_epoch", "member.leader_epoch >= question.leader_epoch"),
          kind=Kind.EPOCH, near=("tests/broker/test_tier_at_slaves.py",)),
    plant("runs-behind-one-that-does-not-fit", "Slave reads", "an answer leaves out a run in the middle",
          ("broker/tier/run_answers.py", "        left -= len(run)\n        if left < 0:\n            return\n", "        if len(run) > left:\n            continue\n        left -= len(run)\n"),
          kind=Kind.ORDER, near=("tests/broker/test_told_windows.py",)),
    plant("late-answer-brings-the-start-back", "Slave reads", "what was deleted is given again after an answer from before",
          ("runtime/tier/told.py", "told.start_offset = max(told.start_offset, answer.start_offset)", "told.start_offset = answer.start_offset"),
          kind=Kind.STALE, near=("tests/broker/test_told_windows.py",)),
    plant("lease-from-the-answer-on", "Slave reads", "a slave uses what it was told for longer than its master keeps it",
          ("runtime/tier/told.py", "runs)), asked_ms, answer.lease_ms)", "runs)), self.now_ms(), answer.lease_ms)"),
          kind=Kind.STALE, near=("tests/broker/test_told_windows.py",)),
    plant("silence-makes-a-lease-longer", "Slave reads", "a master that does not answer makes the lease last longer",
          ("runtime/tier/told.py", "            older.checked_ms = asked_ms\n", "            older.checked_ms = asked_ms\n            older.until_ms = max(older.until_ms, asked_ms + FRESH_MS)\n"),
          kind=Kind.CLEARED, near=("tests/broker/test_tier_at_slaves.py",)),
    plant("window-that-is-used-goes-first", "Slave reads", "the window that was used last gives way",
          ("runtime/tier/told.py", "            self.windows.append(found)", "            self.windows.insert(0, found)"),
          kind=Kind.ORDER, near=("tests/broker/test_told_windows.py",)),
    plant("window-that-overlaps-stays", "Slave reads", "an older window with the same offsets is found before the newer one",
          ("runtime/tier/told.py", "if not one.manifest.run_at(at)]", "if one.manifest.start_offset != at]"),
          kind=Kind.STALE, near=("tests/broker/test_told_windows.py",)),
    plant("silent-master-asked-from-its-time-out-on", "Slave reads", "a master that is silent is asked later each time",
          ("runtime/tier/told.py", "            older.checked_ms = asked_ms\n            return older", "            older.checked_ms = self.now_ms()\n            return older"),
          kind=Kind.STALE, near=("tests/broker/test_told_windows.py",)),
    plant("guard-outlives-a-failed-append", "Transactions", "a guard stays after an append that failed, and lets in what comes late",
          ("kafka/produce/transactional.py", "                self._append(frame, self.let_go, False)\n                is_appended = True\n", "                is_appended = True\n                self._append(frame, self.let_go, False)\n"),
          kind=Kind.CLEARED, near=("tests/kafka/test_first_batches.py",)),
    plant("guard-of-before-while-it-ends", "Transactions", "a guard that a marker has removed is kept while the coordinator is still ending",
          ("kafka/produce/transactional.py", "is_overtaken = asked.adds and await self._renew_guards(pace)", "is_overtaken = not is_ending and asked.adds and await self._renew_guards(pace)"),
          kind=Kind.STALE, near=("tests/kafka/test_first_batches.py",)),
    plant("guard-of-another-is-ones-own", "Transactions", "a guard that another request has made counts as the one that was confirmed",
          ("kafka/produce/transactional.py", "if one.hosted.guards.get(producer_id) is one.guard:", "if one.hosted.guards.get(producer_id) is not None:"),
          kind=Kind.STALE, near=("tests/kafka/test_first_batches.py",)),
    plant("coordinator-asked-once-more", "Transactions", "the coordinator is asked once more than it may be",
          ("kafka/produce/transactional.py", "for _ in range(ASKED_MAX - 1):", "for _ in range(ASKED_MAX):"),
          kind=Kind.RANGE, near=("tests/kafka/test_first_batches.py",)),
    plant("abortable-a-version-later", "Transactions", "version 11 is not told that the transaction can be aborted",
          ("kafka/produce/transactional.py", "self._version >= ABORTABLE_VERSION", "self._version > ABORTABLE_VERSION"),
          kind=Kind.RANGE, near=("tests/kafka/test_first_batches.py",)),
    plant("guards-go-before-the-append-ends", "Transactions", "guards are let go while the batches are still prepared",
          ("kafka/produce/transactional.py", "            await ended.wait()\n            await self._let_go_in_turns(pace)", "            await self._let_go_in_turns(pace)\n            await ended.wait()"),
          kind=Kind.ORDER, near=("tests/kafka/test_transactional_produce.py",)),
    plant("topic-ids-a-version-later", "Transactions", "version 13 has no guards: every transaction is refused",
          ("kafka/produce/transactional.py", "by_id = self._version >= TOPIC_ID_VERSION", "by_id = self._version > TOPIC_ID_VERSION"),
          kind=Kind.RANGE, near=("tests/kafka/test_first_batches.py",)),
    plant("header-alone-is-of-no-transaction", "Transactions", "a batch that is a header alone passes for one without a transaction",
          ("kafka/produce/transactional.py", "if end - start >= BATCH_HEADER_BYTES and memory", "if end - start > BATCH_HEADER_BYTES and memory"),
          kind=Kind.RANGE, near=("tests/kafka/test_first_batches.py",)),
    plant("nothing-left-behind-what-was-skipped", "Calls", "an answer that a member has nothing any more counts as failed",
          ("coordinator/calls/extents.py", "return skip + size <= max(total, skip)", "return skip + size <= total"),
          kind=Kind.RANGE, near=("tests/coordinator/test_call_answers.py",)),
    plant("master-with-nothing-in-the-tier-is-not-believed", "Calls", "a master that knows that the tier has nothing is not heard",
          ("coordinator/calls/tier.py", "return answer.is_known or not answer.runs", "return answer.is_known == bool(answer.runs)"),
          kind=Kind.SNAPSHOT, near=("tests/coordinator/test_call_answers.py",)),
    plant("codes-of-another-entry", "Calls", "codes of markers are taken for those of other partitions",
          ("coordinator/calls/transactions.py", "        return asked == [len(codes) for codes in answer.codes]", "        return sum(asked) == sum(len(codes) for codes in answer.codes)"),
          kind=Kind.SNAPSHOT, near=("tests/coordinator/test_call_answers.py",)),
    plant("ids-of-the-first-entry-alone", "Calls", "ids in later entries of markers are not checked",
          ("coordinator/calls/transactions.py", "for entry in self.entries for marked in entry.partitions)", "for entry in self.entries[:1] for marked in entry.partitions)"),
          kind=Kind.RANGE, near=("tests/coordinator/test_call_answers.py",)),
    plant("more-codes-than-partitions", "Calls", "an answer with a code too many is taken",
          ("coordinator/calls/transactions.py", "        return len(self.partitions) == len(answer.codes)", "        return len(self.partitions) <= len(answer.codes)"),
          kind=Kind.RANGE, near=("tests/coordinator/test_call_answers.py",)),
    plant("more-codes-than-one-member", "Calls", "an answer about a member that left has several codes",
          ("coordinator/calls/shares.py", "        return len(answer.codes) == 1", "        return len(answer.codes) >= 1"),
          kind=Kind.RANGE, near=("tests/coordinator/test_call_answers.py",)),
    plant("fewer-summaries-than-places", "Calls", "an answer without some of the summaries is taken",
          ("coordinator/calls/shares.py", "return len(self.places) == len(answer.found)", "return len(self.places) >= len(answer.found)"),
          kind=Kind.RANGE, near=("tests/coordinator/test_call_answers.py",)),
    plant("more-codes-than-changes", "Calls", "an answer about shares has a code too many",
          ("coordinator/calls/shares.py", "        return len(self.changes) == len(answer.codes)", "        return len(self.changes) <= len(answer.codes)"),
          kind=Kind.RANGE, near=("tests/coordinator/test_call_answers.py",)),
    plant("due-now-is-recalled", "Recalls", "a message is recalled in the millisecond to which deliveries are decided",
          ("remoting/recall/led.py", "if recalled.until_ms <= max(now_ms, self.state.through_ms):", "if recalled.until_ms < max(now_ms, self.state.through_ms):"),
          kind=Kind.RANGE, near=("tests/remoting/test_led_recalls.py",)),
    plant("furthest-time-is-not-recalled", "Recalls", "a message as far away as may be can not be recalled",
          ("remoting/recall/led.py", "if recalled.until_ms > now_ms + KEPT_MS:", "if recalled.until_ms >= now_ms + KEPT_MS:"),
          kind=Kind.RANGE, near=("tests/remoting/test_led_recalls.py",)),
    plant("decided-again-at-its-bound", "Recalls", "a time that is decided has a record more",
          ("remoting/recall/led.py", "if until_ms <= self.state.through_ms:", "if until_ms < self.state.through_ms:"),
          kind=Kind.RANGE, near=("tests/remoting/test_led_recalls.py",)),
    plant("moved-decision-stays-where-it-was", "Recalls", "the log start never passes the first record of a decision",
          ("remoting/recall/state.py", "if event.through_ms >= self.through_ms:", "if event.through_ms > self.through_ms:"),
          kind=Kind.STALE, near=("tests/remoting/test_recalls.py",)),
    plant("moved-recall-stays-first", "Recalls", "a recall that was moved to the end counts as at the beginning",
          ("remoting/recall/state.py", "if self._at.pop(event, None) is None:", "if self._at.get(event) is None:"),
          kind=Kind.ORDER, near=("tests/remoting/test_recalls.py",)),
    plant("decision-at-the-offset-is-before-it", "Recalls", "a decision is moved that has few enough records behind it",
          ("remoting/recall/state.py", "self._through_at < offset:", "self._through_at <= offset:"),
          kind=Kind.RANGE, near=("tests/remoting/test_led_recalls.py",)),
    plant("recalls-of-an-earlier-mastership", "Recalls", "a node that leads again refuses recalls until the next look",
          ("remoting/recall/recalls.py", "        if led is None or not led.is_current:\n            led = self._led", "        if led is None:\n            led = self._led"),
          kind=Kind.EPOCH, near=("tests/remoting/test_led_recalls.py",)),
    plant("recalls-of-a-log-that-was-replaced", "Recalls", "recalls of a log that was opened anew are those of the old one",
          ("remoting/recall/led.py", "is_same = member.leader_epoch == self._leader_epoch and hosted.log is self._log", "is_same = member.leader_epoch == self._leader_epoch"),
          kind=Kind.STALE, near=("tests/remoting/test_led_recalls.py",)),
    plant("recalls-that-failed-to-load-are-loading", "Recalls", "after a read that failed recalls are never read again",
          ("remoting/recall/led.py", "        self._loading = None\n        if isinstance(state, PlatformError):\n            log.info(\"recalls partition=%d: %s\", self.hosted.partition, state)\n        elif self.is_current:\n", "        if isinstance(state, PlatformError):\n            log.info(\"recalls partition=%d: %s\", self.hosted.partition, state)\n        elif self.is_current:\n            self._loading = None\n"),
          kind=Kind.CLEARED, near=("tests/remoting/test_led_recalls.py",)),
    plant("refused-recalls-count", "Recalls", "what is refused counts as recalled",
          ("remoting/recall/recalls.py", "        self._of(place).recall(recalled, done)\n        self.recalled += 1", "        self.recalled += 1\n        self._of(place).recall(recalled, done)"),
          kind=Kind.ORDER, near=("tests/remoting/test_led_recalls.py",)),
    plant("handle-of-a-digit-less", "Recalls", "a handle with the latest time can not be read",
          ("remoting/recall/handle.py", "len(until) <= _DIGITS_MAX", "len(until) < _DIGITS_MAX"),
          kind=Kind.RANGE, near=("tests/remoting/test_led_recalls.py",)),
    plant("due-this-millisecond-is-not-decided", "Later", "a message that is due this millisecond is delivered without a decision",
          ("remoting/later/delivery.py", "for one in times if one <= now_ms", "for one in times if one < now_ms"),
          kind=Kind.RANGE, near=("tests/remoting/test_recalls.py",)),
    plant("newest-time-of-the-oldest-record", "Archive", "the newest time of a chunk is that of an older record: it is pruned too early",
          ("archive/chunks.py", "self._last_ms = max(self._last_ms, highest)", "self._last_ms = max(self._last_ms, lowest)"),
          kind=Kind.STALE, near=("tests/archive/test_pruning.py",)),
    plant("bytes-of-chunks-that-were-committed", "Archive", "each chunk behind a large one has an entry of its own",
          ("archive/copying.py", "self._waiting, self._waiting_bytes = [], 0", "self._waiting = []"),
          kind=Kind.STALE, near=("tests/archive/test_edges.py",)),
    plant("ends-of-what-was-asked-for", "Archive", "partitions without records count as archived",
          ("archive/copying.py", "    summary.ends = _ends(manifest)\n    return summary", "    summary.ends = {one.partition: one.end for one in ranges}\n    return summary"),
          kind=Kind.SNAPSHOT, near=("tests/archive/test_edges.py",)),
    plant("entries-end-where-the-last-one-is", "Archive", "an entry that is gone behind the last snapshot is not missed",
          ("archive/ledger.py", "last = max([*entries, *snapshots], default=0)", "last = max(entries, default=0)"),
          kind=Kind.SNAPSHOT, near=("tests/archive/test_lies.py",)),
    plant("refused-entry-is-the-last-one", "Archive", "a command whose entry was refused goes on behind it",
          ("archive/ledger.py", "        if not self.files.put_new(_entry_name(number), data):", "        previous, self._read.number, self._read.entry = self._read.entry, number, digest(data)\n        if not self.files.put_new(_entry_name(number), data):"),
          kind=Kind.ORDER, near=("tests/archive/test_edges.py",)),
    plant("snapshot-of-the-entry-before", "Archive", "a snapshot names the entry before its own",
          ("archive/ledger.py", "        self._read.number, self._read.entry = number, digest(data)\n        if number % SNAPSHOT_EVERY == 0:\n            snapshot = to_snapshot(self.manifest, number, self._read.entry)\n", "        if number % SNAPSHOT_EVERY == 0:\n            snapshot = to_snapshot(self.manifest, number, self._read.entry)\n"),
          kind=Kind.ORDER, near=("tests/archive/test_lies.py",)),
    plant("gap-at-the-start-is-not-told", "Archive", "what is missing in front of the first chunk that is left is not said",
          ("archive/manifest.py", "if self.start <= chunk.gap_start < chunk.start", "if self.start < chunk.gap_start < chunk.start"),
          kind=Kind.RANGE, near=("tests/archive/test_edges.py",)),
    plant("file-at-the-end-is-somebody-elses", "Archive", "what a run that died has left stops every later run",
          ("archive/sweeping.py", "part is None or found.start >= part.end", "part is None or found.start > part.end"),
          kind=Kind.RANGE, near=("tests/archive/test_edges.py",)),
    plant("pace-from-before-the-wait", "Archive", "a replay is faster than its rate",
          ("archive/replay/pace.py", "self._next_at = max(now, self._next_at) + count", "self._next_at = now + count"),
          kind=Kind.STALE, near=("tests/archive/test_replay.py",)),
    plant("last-shard-is-the-position", "Archive", "a position that stands twice goes back to the lower one",
          ("archive/replay/progress.py", "found[partition] = max(offset, found.get(partition, 0))", "found[partition] = offset"),
          kind=Kind.STALE, near=("tests/archive/test_edges.py",)),
    plant("replay-at-the-start-was-pruned", "Archive", "a replay that was where a prune has cut is refused",
          ("archive/replay/plan.py", "elif start < part.start:", "elif start <= part.start:"),
          kind=Kind.RANGE, near=("tests/archive/test_edges.py",)),
    plant("chunk-that-ends-where-it-begins", "Archive", "a replay is refused for the age of records that it has written before",
          ("archive/replay/plan.py", "c.end > start and c.start < end", "c.end >= start and c.start < end"),
          kind=Kind.RANGE, near=("tests/archive/test_edges.py",)),
    plant("time-of-the-newest-record-is-behind-it", "Archive", "a replay from the time of the newest record has nothing",
          ("archive/replay/plan.py", "chunk.last_ms >= time_ms:", "chunk.last_ms > time_ms:"),
          kind=Kind.RANGE, near=("tests/archive/test_edges.py",)),
    plant("keeps-nothing-and-counts-as-for-ever", "Archive", "records are replayed into a topic that deletes them at once",
          ("archive/replay/target.py", "0 <= retention_ms < now_ms - oldest_ms", "0 < retention_ms < now_ms - oldest_ms"),
          kind=Kind.RANGE, near=("tests/archive/test_edges.py",)),
    plant("chunks-by-their-newest-record", "Archive", "a chunk comes behind one of another partition whose records are all newer",
          ("archive/replay/plan.py", "(chunk.first_ms, number, chunk)", "(chunk.last_ms, number, chunk)"),
          kind=Kind.ORDER, near=("tests/archive/test_edges.py",)),
    plant("prunes-leavings-stay-after-a-run", "Archive", "what a prune that was ended has left stays",
          ("archive/sweeping.py", "    files.delete(left)\n    files.delete_half_written()\n", "    files.delete_half_written()\n    files.delete([name for name in left if not _is_below(manifest, name)])\n"),
          kind=Kind.CLEARED, near=("tests/archive/test_edges.py",)),
    plant("unnamed-files-count-as-damaged", "Archive", "files that nobody names are told to be damaged",
          ("cli/archive/commands.py", "f\"{len(damaged)} files", "f\"{len(found)} files"),
          kind=Kind.SNAPSHOT, near=("tests/archive/test_commands.py",)),
    plant("rows-of-the-whole-chunk", "Archive", "each file of a chunk is listed with the rows of all",
          ("cli/archive/commands.py", "            \"rows\": file.rows,", "            \"rows\": chunk.rows,"),
          kind=Kind.SNAPSHOT, near=("tests/archive/test_commands.py",)),
    plant("prefix-with-a-slash", "Archive", "a place with a slash at its end is another one",
          ("cli/archive/places.py", "parts.path.strip(\"/\")", "parts.path.lstrip(\"/\")"),
          kind=Kind.RANGE, near=("tests/archive/test_commands.py",)),
    plant("tokens-as-at-the-start", "HTTP", "a changed file of tokens has no effect",
          ("cli/launch/http.py", "        lambda: watched.value,\n", "        lambda known=watched.value: known,\n"),
          kind=Kind.STALE, near=("tests/http_front/test_tokens.py",)),
    plant("access-key-that-is-used-gives-way", "HTTP", "the access key that was made first gives way, however often it is used",
          ("http/front.py", "found = self._identities.pop(credentials, None)", "found = self._identities.get(credentials)"),
          kind=Kind.ORDER, near=("tests/http_front/test_shared_front.py",)),
    plant("health-asks-while-it-asks", "HTTP", "a look for a node that takes long is begun again by each request",
          ("http/front.py", "(self._asked.done() and now > self._fresh_until)", "now > self._fresh_until"),
          kind=Kind.STALE, near=("tests/http_front/test_shared_front.py",)),
    plant("refused-connection-has-a-place", "HTTP", "connections that were refused take the places of others",
          ("http/places.py", "            return False\n        self._strangers", "            self._strangers[holder] = None\n            return False\n        self._strangers"),
          kind=Kind.CLEARED, near=("tests/http_front/test_places.py",)),
    plant("body-of-the-bound-is-too-large", "HTTP", "a body as large as may be is refused",
          ("http/call.py", "if len(parts) + len(data) > BODY_BYTES_MAX:", "if len(parts) + len(data) >= BODY_BYTES_MAX:"),
          kind=Kind.RANGE, near=("tests/http_front/test_shared_front.py",)),
    plant("refused-bytes-are-given-back", "HTTP", "bytes that were refused are taken from those that are held",
          ("http/call.py", "            raise unavailable(\"too-much-held\", detail, \"send it again a little later\")\n        self._held_bytes += size", "            self._held_bytes += size\n            raise unavailable(\"too-much-held\", detail, \"send it again a little later\")\n        self._held_bytes += size"),
          kind=Kind.CLEARED, near=("tests/http_front/test_shared_front.py",)),
    plant("last-byte-that-may-be-held", "HTTP", "the last byte that may be held is refused",
          ("http/limits.py", "if self.bytes_now + size > self.bytes_max:", "if self.bytes_now + size >= self.bytes_max:"),
          kind=Kind.RANGE, near=("tests/http_front/test_shared_front.py",)),
    plant("room-a-moment-too-late", "HTTP", "a message makes no room in the moment in which its time ends",
          ("http/operations/flight.py", "self._ends[0][0] <= now:", "self._ends[0][0] < now:"),
          kind=Kind.RANGE, near=("tests/http_front/test_flight.py",)),
    plant("renewed-ends-with-its-first-time", "HTTP", "what was renewed makes room as its first time ends",
          ("http/operations/flight.py", "            if self._until.get(place) == until:\n                del self._until[place]", "            self._until.pop(place, None)"),
          kind=Kind.STALE, near=("tests/http_front/test_flight.py",)),
    plant("settled-wakes-only-the-full", "HTTP", "a stream does not hear that a message was settled",
          ("http/operations/flight.py", "            del self._until[handle.place]\n            self._has_room.set()", "            del self._until[handle.place]\n            if len(self._until) >= self._count_max:\n                self._has_room.set()"),
          kind=Kind.CLEARED, near=("tests/http_front/test_flight.py",)),
    plant("bytes-of-the-batch-before", "HTTP", "behind a full batch each message goes by itself",
          ("http/operations/produce.py", "            if chunk and (message.is_delayed or is_full):\n                yield chunk\n                chunk, size = [], 0", "            if chunk and (message.is_delayed or is_full):\n                yield chunk\n                chunk = []"),
          kind=Kind.STALE, near=("tests/http_front/test_lanes.py",)),
    plant("batch-of-one-too-many", "HTTP", "a batch has a message more than may be",
          ("http/operations/produce.py", "len(chunk) >= BATCH_MESSAGES_MAX", "len(chunk) > BATCH_MESSAGES_MAX"),
          kind=Kind.RANGE, near=("tests/http_front/test_lanes.py",)),
    plant("key-in-a-batch-of-others", "HTTP", "a batch with some keys is sent again to another queue",
          ("http/operations/produce.py", "has_keys = any(", "has_keys = all("),
          kind=Kind.SNAPSHOT, near=("tests/http_front/test_lanes.py",)),
    plant("receive-ends-with-the-retries", "HTTP", "a long receive ends when retries would",
          ("http/operations/receive.py", "until = deadline if failed is None else max(deadline, begun + RETRY_S)", "until = deadline if failed is None else begun + RETRY_S"),
          kind=Kind.STALE, near=("tests/http_front/test_upstream.py",)),
    plant("message-counts-as-sent-before-it-is", "HTTP", "a message whose writing is cut off does not come again at once",
          ("http/operations/stream.py", "                await self._event(\"message\", encode_json(document_of(one)))\n                left.pop(0)", "                left.pop(0)\n                await self._event(\"message\", encode_json(document_of(one)))"),
          kind=Kind.ORDER, near=("tests/http_front/test_lanes.py",)),
    plant("one-watch-too-many", "HTTP", "one watch more is open than may be",
          ("http/upstream/watches.py", "len(self._tasks) >= WATCHES_MAX", "len(self._tasks) > WATCHES_MAX"),
          kind=Kind.RANGE, near=("tests/http_front/test_upstream.py",)),
    plant("one-request-too-many-waits", "HTTP", "one request more waits for a node than may",
          ("http/upstream/connection.py", "if len(self._pending) >= PENDING_MAX:", "if len(self._pending) > PENDING_MAX:"),
          kind=Kind.RANGE, near=("tests/http_front/test_upstream.py",)),
    plant("refusal-keeps-the-route", "HTTP", "a route stays after a node has refused by it",
          ("http/upstream/nodes.py", "                self.forget(topic)\n                if not may_pass(error):\n                    raise\n", "                if not may_pass(error):\n                    raise\n                self.forget(topic)\n"),
          kind=Kind.ORDER, near=("tests/http_front/test_upstream.py",)),
    plant("settled-counts-before-it-is", "HTTP", "receipts that a node refuses count as acknowledged",
          ("http/operations/settle.py", "        async with self._at_once:\n            try:\n                renewed = await self._say", "        self._front.stats.messages[self._word.outcome] += 1\n        async with self._at_once:\n            try:\n                renewed = await self._say"),
          kind=Kind.ORDER, near=("tests/http_front/test_lanes.py",)),
    plant("buried-by-the-receipt-of-before", "HTTP", "a dead letter is accepted by a receipt that is over",
          ("http/upstream/popping.py", "        await self.accept(kept)", "        await self.accept(handle)"),
          kind=Kind.STALE, near=("tests/http_front/test_upstream.py",)),
    plant("one-handshake-too-many", "HTTP", "one handshake more is open than may be",
          ("http/accepting.py", "if len(self._opening) >= HANDSHAKES_MAX:", "if len(self._opening) > HANDSHAKES_MAX:"),
          kind=Kind.RANGE, near=("tests/http_front/test_handshakes.py",)),
    plant("token-as-it-was-shown", "HTTP", "a stream goes on whose token was withdrawn",
          ("http/front.py", "token = self.tokens().find(call.bearer)", "token = call.token"),
          kind=Kind.STALE, near=("tests/http_front/test_stream.py",)),
    plant("time-to-read-is-over-for-good", "HTTP", "who stops reading once more is never ended",
          ("http/protocol.py", "            self._write_timer.cancel()\n            self._write_timer = None", "            self._write_timer.cancel()"),
          kind=Kind.CLEARED, near=("tests/http_front/test_slow_clients.py",)),
    plant("route-for-twice-its-time", "HTTP", "a route is used for twice as long",
          ("http/upstream/nodes.py", "if known is not None and known[0] > now:", "if known is not None and known[0] > now - ROUTE_S:"),
          kind=Kind.RANGE, near=("tests/http_front/test_upstream.py",)),
    plant("connection-that-was-opened-is-opening", "HTTP", "a node whose connection broke is never connected again",
          ("http/upstream/nodes.py", "        self._opening.pop(address, None)\n        if not done", "        if not done"),
          kind=Kind.CLEARED, near=("tests/http_front/test_upstream.py",)),
    plant("end-of-a-watch-is-news", "HTTP", "a watch that ends without news makes the next look wait",
          ("http/operations/receive.py", "        self._has_fired = any(not one.cancelled() and one.result() for one in fired)", "        self._has_fired = bool(fired)"),
          kind=Kind.STALE, near=("tests/http_front/test_upstream.py",)),
    plant("all-fail-where-one-does", "HTTP", "messages that were produced count as not produced",
          ("http/operations/produce.py", "[\"not produced\"] += len(failed)", "[\"not produced\"] += len(outcomes)"),
          kind=Kind.SNAPSHOT, near=("tests/http_front/test_lanes.py",)),
    plant("one-more-than-fills-the-bound", "Later", "a read takes a message more once its bound is reached",
          ("remoting/later/due.py", "size >= BYTES_MAX):", "size > BYTES_MAX):"),
          kind=Kind.RANGE, near=("tests/remoting/test_due.py",)),
    plant("floor-while-a-level-is-read", "Recalls", "recalls are forgotten by what was first before the read that is under way",
          ("remoting/later/delivery.py", "head.is_paused or hosted in self._open:", "head.is_paused:"),
          kind=Kind.STALE, near=("tests/remoting/test_led_recalls.py",)),
    plant("floor-of-an-earlier-mastership", "Recalls", "recalls are forgotten by what an earlier mastership knew",
          ("remoting/later/delivery.py", "head is not None and head.leader_epoch == hosted.member.leader_epoch", "head is not None and head.leader_epoch <= hosted.member.leader_epoch"),
          kind=Kind.EPOCH, near=("tests/remoting/test_led_recalls.py",)),
    plant("decided-ahead-of-what-was-due", "Recalls", "after a pause each delivery has a decision of its own",
          ("remoting/recall/led.py", "max(self._broker.clock.wall_ms(), until_ms) + AHEAD_MS", "max(self._broker.clock.wall_ms(), until_ms + AHEAD_MS)"),
          kind=Kind.STALE, near=("tests/remoting/test_led_recalls.py",)),
    plant("put-back-counts-as-moved", "Later", "messages that their topic has refused count as gone on to another level",
          ("remoting/later/delivery.py", "        self.moved += moved\n        self.put_back += put_back", "        self.moved += moved + put_back\n        self.put_back += put_back"),
          kind=Kind.SNAPSHOT, near=("tests/remoting/test_delays.py",)),
    plant("message-of-the-bound-is-too-large", "Later", "a message that its topic takes to the last byte is refused a delay",
          ("remoting/later/holding.py", "if size > rules.max_message_bytes:", "if size >= rules.max_message_bytes:"),
          kind=Kind.RANGE, near=("tests/remoting/test_due.py",)),
    plant("sent-back-counts-whatever-became", "Later", "messages that could not be sent back count as sent back",
          ("remoting/later/resending.py", "counts[kind] += not isinstance(outcome, PlatformError)", "counts[kind] += 1"),
          kind=Kind.SNAPSHOT, near=("tests/remoting/test_due.py",)),
    plant("late-by-what-others-lead", "Later", "a node tells of messages as late that another one leads by now",
          ("remoting/later/delivery.py", "return max((now_ms - one.due_ms for one in heads if one and one.due_ms < now_ms), default=0)", "return max((now_ms - one.due_ms for one in self._heads.values() if one.due_ms < now_ms), default=0)"),
          kind=Kind.STALE, near=("tests/remoting/test_led_recalls.py",)),
)  # fmt: skip
