"""Planted bugs of positions in transactions: pending, markers, rewrites, failovers (ADR 0092)."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

MAPS = ("tests/coordinator/test_pending_map.py",)
CONTRACT = ("tests/coordinator/test_shards.py",)
GROUPS = ("tests/groups/test_transactional_commits.py",)
BROKER = ("tests/broker/test_transactional_offsets.py",)
MAP = "coordinator/pending_map.py"
AREA = "Transactions"

MUTANTS = (
    plant("aborted-positions-count", AREA, "what was written in an aborted transaction is committed",
          (MAP, "                if step.is_commit:\n", "                if True:\n"),
          kind=Kind.GUARD, near=MAPS),
    plant("older-pending-wins", AREA, "a committed position is replaced by an older one of a transaction that ends later",
          (MAP, "for lost in self.pending.drop(key, ticket):", "for lost in self.pending.drop(key, 0):"),
          kind=Kind.ORDER, near=MAPS),
    plant("marker-ends-what-is-behind-it", AREA, "a rewrite takes positions of the next transaction for committed ones",
          (MAP, "            merged._step(self._steps.get(ticket), ticket, some)\n", "            merged._step(None, ticket, some)\n"),
          kind=Kind.ORDER, near=(*MAPS, *CONTRACT)),
    plant("pending-is-lost-at-failover", AREA, "a broker that takes a group over knows nothing of open transactions",
          ("groups/loading.py", "        yield from self._restore_pending(wall_ms)\n", ""),
          kind=Kind.SNAPSHOT, near=(*BROKER, *CONTRACT)),
    plant("rewrite-cuts-open-transactions", AREA, "a rewrite cuts off what an open transaction has written (redpanda#19931)",
          ("broker/coordinators/rewrite.py", "min(rewrite.first_offset, _first_undecided(rewrite.hosted))", "rewrite.first_offset"),
          kind=Kind.RANGE, near=BROKER),
    plant("rewrite-wins-over-what-is-pending", AREA, "a position that a rewrite has copied replaces what a transaction commits later",
          ("groups/journal.py", "return [*records, *map(as_copy, copies)]", "return [*records, *copies]"),
          kind=Kind.ORDER, near=(*CONTRACT, *BROKER)),
    plant("marker-is-heard-before-it-is-confirmed", AREA, "positions show whose commit may still be lost",
          ("broker/coordinators/hosting.py", "            self._journal.wait_for_end(hosted, done)\n", "            done(None)\n"),
          kind=Kind.ORDER, near=BROKER),
    plant("marker-during-a-load-is-lost", AREA, "a marker that comes before a loaded group is shown ends nothing",
          ("coordinator/runtime.py", "            loading.markers.append(marker)\n", ""),
          kind=Kind.CLEARED, near=(*BROKER, *CONTRACT)),
    plant("pending-groups-expire", AREA, "a group expires while a transaction has positions in it",
          ("groups/group.py", "return not self.offsets.in_flight_count and not self.offsets.pending", "return not self.offsets.in_flight_count"),
          kind=Kind.GUARD, near=GROUPS),
    plant("pending-positions-are-stable", AREA, "a consumer begins at a position that the open transaction is about to move",
          (MAP, "return key in self.pending or super().is_in_flight(key)", "return super().is_in_flight(key)"),
          kind=Kind.GUARD, near=(*MAPS, *GROUPS, *BROKER)),
    plant("an-older-producer-commits-positions", AREA, "an instance that was replaced writes positions",
          ("broker/append/transactional.py", "header.producer_epoch < known.epoch:\n        hosted", "False:\n        hosted"),
          kind=Kind.EPOCH, near=BROKER),
    plant("deleted-groups-leave-pending", AREA, "what was pending in a deleted group comes back with its next commit",
          (MAP, "        return iter([*dict.fromkeys([*super().keys(), *more])])\n", "        return super().keys()\n"),
          kind=Kind.CLEARED, near=(*MAPS, *GROUPS)),
)  # fmt: skip
