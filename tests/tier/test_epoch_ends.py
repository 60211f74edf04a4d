"""Ends of masterships by the manifest, against a list of the epoch of each offset."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.ids import LeaderEpoch
from penstock.tier.metadata.manifest import Manifest, Run
from penstock.tier.read.epochs import epoch_end
from simulator.kernel.object_store import Bucket
from tests.extents.files import Part, batch, key
from tests.tier.objects import manifest_of, name, put

ONE = key(1, 0)


def made(epochs: list[int], cuts: set[int]) -> Manifest:
    """Return a manifest with a batch of one record for each epoch; objects end at the cuts."""
    runs: list[Run] = []
    bucket, begin = Bucket(), 0
    for end in sorted({*cuts, len(epochs)}):
        batches = [batch(at, epoch=epochs[at]) for at in range(begin, end)]
        runs += put(bucket, name(len(runs) + 1), [Part(ONE, batches)])
        begin = end
    return manifest_of(runs)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), st.data())
def test_an_end_is_that_of_the_largest_epoch_at_or_below(
    written: list[int], data: st.DataObject
) -> None:
    epochs = sorted(written)
    cuts = data.draw(st.sets(st.integers(1, max(len(epochs) - 1, 1)), max_size=3))
    wanted, limit = data.draw(st.integers(0, 7)), data.draw(st.integers(1, len(epochs)))
    manifest = made(epochs, {cut for cut in cuts if cut < len(epochs)})
    below = [epoch for epoch in epochs if epoch <= wanted]
    found = epoch_end(manifest, LeaderEpoch(wanted), limit)
    assert found == ((below[-1], min(len(below), limit)) if below else None)
