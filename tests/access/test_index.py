"""What an index keeps of rules that are gone."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.access.index import _Patterns
from penstock.access.rules import AclPattern

NAMES = st.sampled_from(["a", "b", "ab", "abc", "*"])


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(AclPattern), NAMES), max_size=20))
def test_an_index_looks_at_the_lengths_of_prefixes_that_are_there(
    steps: list[tuple[bool, AclPattern, str]],
) -> None:
    made: _Patterns[int] = _Patterns()
    kept: dict[tuple[AclPattern, str], int] = {}
    for number, (is_kept, pattern, name) in enumerate(steps):
        if is_kept:
            made.put(pattern, name, number)
            kept[pattern, name] = number
        elif (pattern, name) in kept:
            made.drop(pattern, name)
            del kept[pattern, name]
        assert {*made.lengths} == {len(one) for of, one in kept if of is AclPattern.PREFIXED}
        assert made.get(pattern, name) == kept.get((pattern, name))
        assert made.is_empty is not bool(kept)
        for asked in ("a", "ab", "abcd", "*"):
            expected = {
                value
                for (of, one), value in kept.items()
                if (asked.startswith(one) if of is AclPattern.PREFIXED else one in {asked, "*"})
            }
            assert {*made.matching(asked)} == expected
