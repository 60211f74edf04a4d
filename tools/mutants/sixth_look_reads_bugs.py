"""Planted bugs of look-ups for clients, all of which were in the source or are one step from it."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

LOOK_UPS = ("tests/broker/test_look_ups.py",)
SEARCHES = ("tests/kafka/test_searches.py",)
DISK = ("tests/runtime/test_disk.py",)
WATERMARKS = ("tests/broker/test_cold_watermarks.py",)

MUTANTS = (
    plant("searches-share-threads-with-syncs", "Look-ups", "searches by time of a few clients hold up every acknowledgement",
          ("storage/commit_log/set_log.py", "self._reader.off_loop(newest, partial(_found, done), Lane.READ)", "self._reader.off_loop(newest, partial(_found, done), Lane.SYNC)"),
          kind=Kind.GUARD, near=SEARCHES),
    plant("syncs-share-threads-with-the-log", "Produce", "a sync waits while indexes, snapshots and copies of other sets are written",
          ("storage/commit_log/group_commit.py", "done, Lane.SYNC)", "done)"),
          kind=Kind.GUARD, near=SEARCHES),
    plant("lanes-share-a-queue", "Look-ups", "whoever fills the queue of the disk's threads holds up those who sync",
          ("runtime/io/disk.py", "        self._work[lane].put(job)", "        self._work[Lane.WORK].put(job)"),
          kind=Kind.GUARD, near=DISK),
    plant("look-ups-of-a-node-unbounded", "Look-ups", "as many searches as there are addresses run at once",
          ("broker/look_ups.py", "        if self._in_progress >= self._at_once:\n            return None\n", ""),
          kind=Kind.GUARD, near=LOOK_UPS),
    plant("one-address-has-all-look-ups", "Look-ups", "a client with slow searches leaves no place to others",
          ("broker/look_ups.py", " if self._of_address[one] < OF_ADDRESS)", ")"),
          kind=Kind.GUARD, near=LOOK_UPS),
    plant("first-connection-first", "Look-ups", "a connection that asks for much is served to its end before others of its address",
          ("broker/look_ups.py", "            clients[client] = asked\n", "            clients = {client: asked, **clients}\n"),
          kind=Kind.ORDER, near=LOOK_UPS),
    plant("look-ups-for-who-has-gone", "Look-ups", "searches of closed connections go on, for minutes where there were many",
          ("broker/look_ups.py", "        has_gone = client.has_gone()\n", "        has_gone = False\n"),
          kind=Kind.GUARD, near=(*LOOK_UPS, *SEARCHES)),
    plant("look-ups-without-rest", "Look-ups", "threads that search all the time keep the loop from the processor",
          ("broker/look_ups.py", "        if rest_ms:\n", "        if False:\n"),
          kind=Kind.GUARD, near=LOOK_UPS),
    plant("places-rest-alone", "Look-ups", "with two addresses that search there is no time without a thread that searches",
          ("broker/look_ups.py", "took_ms * (2 * self._in_progress - 1)", "took_ms"),
          kind=Kind.GUARD, near=LOOK_UPS),
    plant("look-ups-are-not-counted", "Look-ups", "requests of many partitions that wait take memory without a bound",
          ("kafka/look_ups.py", "        self._request.connection.keep(size)\n", "        self._request.connection.keep(0)\n"),
          kind=Kind.GUARD, near=SEARCHES),
    plant("absent-by-a-later-confirm-position", "Look-ups", "a new master says that no record has a time which it has not searched",
          ("kafka/handlers/records/list_offsets.py", "        elif is_whole:\n", "        elif knows_the_end(self.hosted):\n"),
          kind=Kind.STALE, near=SEARCHES),
    plant("searches-of-a-former-master", "Look-ups", "who has lost the mastership while a search waited answers with its own end",
          ("kafka/handlers/records/list_offsets.py", "            hosted.check_still_led(self.leader_epoch)\n", ""),
          kind=Kind.STALE, near=SEARCHES),
    plant("watermark-from-the-disk-on-the-loop", "Fetch", "each fetch reads an index on the loop while confirming lags, and an error of the disk goes into replication",
          ("replica/replica_set.py", "        return self.log.known_offset_at(log, self.confirm_position)\n", "        return self.log._reader._search_at(log, self.confirm_position)()[0]\n"),
          kind=Kind.GUARD, near=WATERMARKS),
    plant("watermark-of-the-newest-file", "Fetch", "records that are not confirmed are readable while no index of their file is in memory",
          ("storage/read/reader.py", "            if sealed is None:\n                return None\n", "            if sealed is None:\n                continue\n"),
          kind=Kind.GUARD, near=WATERMARKS),
    plant("watermark-error-is-asked-again", "Fetch", "a fetch asks a disk that gives nothing back for ever, and hears of no error",
          ("broker/fetch/partition_read.py", "            raise found\n", "            return None\n"),
          kind=Kind.GUARD, near=WATERMARKS),
    plant("found-index-is-not-kept", "Fetch", "each fetch asks the disk anew while confirming lags",
          ("storage/read/reader.py", "                    self._keep(partition.serial, result[1], None)\n                    done(result[0], None)\n", "                    done(result[0], None)\n"),
          kind=Kind.CLEARED, near=WATERMARKS),
)  # fmt: skip
