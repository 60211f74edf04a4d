"""Which rules a filter finds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.access.filters import PatternFilter, RuleFilter
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from tests.access.rule_sets import Question, concerns, rules

RULE = Rule(
    resource_type=AclResource.TOPIC,
    resource_name="orders",
    pattern=AclPattern.LITERAL,
    principal="User:a",
    host="*",
    operation=AclOperation.READ,
    permission=AclPermission.ALLOW,
)
EXACT = RuleFilter(
    AclResource.TOPIC,
    "orders",
    PatternFilter.LITERAL,
    "User:a",
    "*",
    AclOperation.READ,
    AclPermission.ALLOW,
)


def test_a_filter_that_leaves_nothing_open_finds_its_rule_only() -> None:
    assert EXACT.only_rule() == RULE
    assert EXACT.matches(RULE)


@pytest.mark.parametrize(
    "part", ["resource_type", "resource_name", "principal", "host", "operation", "permission"]
)
def test_each_part_can_be_left_open_and_counts_where_it_is_given(part: str) -> None:
    wider = EXACT._replace(**{part: None})  # type: ignore[arg-type]
    assert wider.only_rule() is None
    others = {
        "resource_type": AclResource.GROUP,
        "resource_name": "other",
        "principal": "User:*",
        "host": "::1",
        "operation": AclOperation.ALL,
        "permission": AclPermission.DENY,
    }
    other = replace(RULE, **{part: others[part]})  # type: ignore[arg-type]
    assert wider.matches(other)
    assert not EXACT.matches(other)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (PatternFilter.ANY, ["orders", "orders..."]),
        (PatternFilter.LITERAL, ["orders"]),
        (PatternFilter.PREFIXED, ["orders..."]),
        (PatternFilter.MATCH, ["orders", "*", "ord...", "orders..."]),
    ],
)
def test_names_are_found_by_pattern(pattern: PatternFilter, found: list[str]) -> None:
    kept = {
        "orders": RULE,
        "*": replace(RULE, resource_name="*"),
        "other": replace(RULE, resource_name="other"),
        "ord...": replace(RULE, resource_name="ord", pattern=AclPattern.PREFIXED),
        "orders...": replace(RULE, pattern=AclPattern.PREFIXED),
        "orders-eu...": replace(RULE, resource_name="orders-eu", pattern=AclPattern.PREFIXED),
    }
    asked = RuleFilter(resource_name="orders", pattern=pattern)
    assert [name for name, rule in kept.items() if asked.matches(rule)] == found


@given(rules, st.sampled_from(["a", "ab", "x"]))
def test_match_finds_what_applies_to_a_resource(rule: Rule, name: str) -> None:
    asked = RuleFilter(
        resource_type=AclResource.TOPIC, resource_name=name, pattern=PatternFilter.MATCH
    )
    question = Question("User:a", "::1", AclOperation.READ, AclResource.TOPIC, name)
    assert asked.matches(rule) is concerns(rule, question)
