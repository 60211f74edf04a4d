"""Hypothesis strategies for records and batches."""

from hypothesis import strategies as st

from penstock.record.build import Record, build_batch

parts = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), parts), max_size=3).map(tuple)
times = st.integers(-5, 2**41) | st.sampled_from([2**61, -(2**61), 1_700_000_000_000_000_000])
records = st.builds(Record, parts, parts, headers, times)
batches = st.lists(records, min_size=1, max_size=12)
codecs = st.integers(0, 4)


@st.composite
def runs(draw: st.DrawFn) -> bytes:
    """Whole batches one after another, offsets rising, some of them control or with append time."""
    offset = draw(st.integers(0, 2**40))
    out = b""
    for _ in range(draw(st.integers(0, 5))):
        offset += draw(st.integers(0, 3))
        chosen = draw(batches)
        out += build_batch(
            chosen,
            codec=draw(codecs),
            base_offset=offset,
            attributes=draw(st.sampled_from([0, 0, 0, 0x08, 0x10, 0x30])),
        )
        offset += len(chosen)
    return out
