"""Rules that match actual use: they permit all of it, and none can be left out."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.access.index import RuleIndex, Verdict
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.audit.counts import NUMBERS
from penstock.audit.row import OTHERS, Row, RowKey, Who
from penstock.audit.uses import Use, needed, use_of

OPERATIONS = ("read", "write", "delete", "alter", "describe", "describe_configs", "alter_configs")
USES = st.lists(
    st.builds(
        Use,
        st.sampled_from(("User:a", "User:b")),
        st.sampled_from(("topic", "group")),
        st.sampled_from(("x", "y")),
        st.sampled_from(OPERATIONS),
    ),
    max_size=12,
)


def row(operation: str, topic: str, partition: int = -1, **counts: int) -> Row:
    key = RowKey(Who("User:a", "c", "s", "1", "::1"), operation, topic, partition)
    return Row(1, 0, 60_000, key, dict.fromkeys(NUMBERS, 0) | counts)


def test_rows_show_what_was_used_and_rows_of_refusals_and_whole_requests_do_not() -> None:
    assert use_of(row("produce", "t", 3, requests=1)) == Use("User:a", "topic", "t", "write")
    assert use_of(row("fetch", "t", 0, requests=1)) == Use("User:a", "topic", "t", "read")
    allowed = use_of(row("allowed alter_configs group", "g", requests=2))
    assert allowed == Use("User:a", "group", "g", "alter_configs")
    for nothing in (
        row("produce", "t", 3, errors=1),
        row("produce", "", requests=1),
        row("metadata", "", requests=1),
        row("denied write topic", "t", errors=1),
        Row(1, 0, 1, OTHERS, dict.fromkeys(NUMBERS, 9)),
    ):
        assert use_of(nothing) is None


def test_a_name_as_long_as_rows_keep_may_have_been_longer() -> None:
    assert not Use("User:a", "group", "g" * 254, "read").is_cut
    assert Use("User:a", "group", "g" * 255, "read").is_cut
    assert Use("u" * 255, "group", "g", "read").is_cut


def _rule(use: Use) -> Rule:
    return Rule(
        resource_type=AclResource[use.resource.upper()],
        resource_name=use.name,
        pattern=AclPattern.LITERAL,
        principal=use.principal,
        host="*",
        operation=AclOperation[use.operation.upper()],
        permission=AclPermission.ALLOW,
    )


def permitted(uses: list[Use], rules: list[Use]) -> list[bool]:
    """Which uses these rules permit, as the authoriser decides."""
    index = RuleIndex()
    for number, one in enumerate(rules):
        index.add(number.to_bytes(16, "big"), _rule(one))
    return [
        index.verdict(
            use.principal,
            "10.0.0.1",
            AclOperation[use.operation.upper()],
            AclResource[use.resource.upper()],
            use.name,
        )
        is Verdict.ALLOWED
        for use in uses
    ]


@given(USES)
def test_the_rules_permit_every_use_and_none_of_them_can_be_left_out(uses: list[Use]) -> None:
    rules = needed(uses)
    assert all(permitted(uses, rules))
    for number in range(len(rules)):
        assert not all(permitted(uses, rules[:number] + rules[number + 1 :]))
