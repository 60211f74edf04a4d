"""Counts changes of sync-state sets as they are applied from the metadata log."""

from collections import Counter

from penstock.controller.metadata.image import ClusterDelta, ClusterImage


class SyncStateWatch:
    """Counts changes of sync-state sets as entries are applied, by what happened to the set."""

    def __init__(self, image: ClusterImage) -> None:
        self.changes = Counter[str]()
        self._sizes = {
            replica_set.replica_set_id: len(replica_set.sync_state_set)
            for replica_set in image.replica_sets.values()
        }
        image.subscribe(self._on_delta)

    def _on_delta(self, delta: ClusterDelta) -> None:
        for replica_set in delta.changed_replica_sets:
            before = self._sizes.get(replica_set.replica_set_id)
            now = self._sizes[replica_set.replica_set_id] = len(replica_set.sync_state_set)
            if before is not None and before != now:
                self.changes["shrink" if now < before else "expand"] += 1
