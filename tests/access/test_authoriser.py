"""What the authoriser decides equals what the specification says, whatever rules there are."""

import time
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.access.authoriser import DECISIONS_MAX, NAME_CHARACTERS_KEPT, AclAuthoriser
from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.access.rules import AclOperation as Op
from penstock.access.rules import AclPattern, AclPermission, AclResource, Rule
from tests.access.rule_sets import (
    Question,
    close_questions,
    close_rules,
    model,
    model_of_some,
    questions,
    rules,
)

TOPIC = AclResource.TOPIC


class Who(NamedTuple):
    principal: str
    host: str


def authoriser(
    *kept: Rule, if_none: bool = False, super_users: tuple[str, ...] = ()
) -> AclAuthoriser:
    made = AclAuthoriser(
        AccessConfig(
            authorizer=AuthoriserKind.ACL,
            super_users=super_users or ("User:root",),
            allow_everyone_if_no_acl_found=if_none,
        )
    )
    made.change([(ident(one), one) for one in kept], [])
    return made


def ident(rule: Rule) -> bytes:
    return repr(rule).encode()


def rule(
    name: str,
    operation: Op,
    permission: AclPermission = AclPermission.ALLOW,
    pattern: AclPattern = AclPattern.LITERAL,
    *,
    principal: str = "User:a",
    host: str = "*",
) -> Rule:
    return Rule(
        resource_type=TOPIC,
        resource_name=name,
        pattern=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def ask(made: AclAuthoriser, asked: Question) -> bool:
    who = Who(asked.principal, asked.host)
    return made.permits(who, asked.operation, asked.resource, asked.name)


def ask_some(made: AclAuthoriser, asked: Question) -> bool:
    who = Who(asked.principal, asked.host)
    return made.permits_some(who, asked.operation, asked.resource)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), rules, questions), max_size=25)
    | st.lists(st.tuples(st.booleans(), close_rules, close_questions), max_size=25),
    st.booleans(),
    st.booleans(),
)
def test_it_decides_as_the_model_after_any_changes(
    steps: list[tuple[bool, Rule, Question]], if_none: bool, is_super: bool
) -> None:
    super_users = ("User:b",) if is_super else ("User:root",)
    made, kept = authoriser(if_none=if_none, super_users=super_users), dict[Rule, None]()
    for is_removal, one, _ in steps:
        if not is_removal and one not in kept:
            made.change([(ident(one), one)], [])
            kept[one] = None
        elif is_removal and kept:
            gone = next(iter(kept))
            del kept[gone]
            made.change([], [(ident(gone), gone)])
        for _, _, asked in steps:
            expected = model(kept, asked, super_users=super_users, if_none=if_none)
            assert ask(made, asked) is expected, (list(kept), asked)
            expected = model_of_some(kept, asked, super_users=super_users, if_none=if_none)
            assert ask_some(made, asked) is expected, (list(kept), asked)


def test_a_deny_of_everybody_wins_over_an_allow_by_name() -> None:
    made = authoriser(
        rule("orders", Op.ALL),
        rule("ord", Op.READ, AclPermission.DENY, AclPattern.PREFIXED, principal="User:*"),
    )
    asked = Question("User:a", "1.1.1.1", Op.READ, TOPIC, "orders")
    assert not ask(made, asked)
    assert ask(made, asked._replace(operation=Op.WRITE))


def test_a_change_drops_decisions_that_were_remembered_longest_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.access.authoriser.DECISIONS_MAX", 1)
    allowed = rule("orders", Op.READ)
    made = authoriser(allowed)
    asked = Question("User:a", "1.1.1.1", Op.READ, TOPIC, "orders")
    assert ask(made, asked)
    assert not ask(made, asked._replace(name="others"))
    assert made.decision_count == 2
    made.change([], [(ident(allowed), allowed)])
    assert not ask(made, asked)


def test_a_denied_prefix_stays_when_another_one_of_its_length_goes() -> None:
    other = rule("abc", Op.READ, AclPermission.DENY, AclPattern.PREFIXED)
    made = authoriser(
        other, rule("ord", Op.READ, AclPermission.DENY, AclPattern.PREFIXED), rule("*", Op.READ)
    )
    asked = Question("User:a", "1.1.1.1", Op.READ, TOPIC, "orders")
    assert not ask(made, asked)
    made.change([], [(ident(other), other)])
    assert not ask(made, asked)


def test_a_prefix_that_is_denied_itself_allows_nothing_anywhere() -> None:
    made = authoriser(
        rule("ord", Op.READ, pattern=AclPattern.PREFIXED),
        rule("ord", Op.READ, AclPermission.DENY, AclPattern.PREFIXED),
    )
    asked = Question("User:a", "1.1.1.1", Op.READ, TOPIC, "")
    assert not ask_some(made, asked)
    made.change([(b"longer", rule("orde", Op.READ))], [])
    assert not ask_some(made, asked)
    made.change([(b"shorter", rule("or", Op.READ))], [])
    assert ask_some(made, asked)


def test_a_denied_read_does_not_deny_describe() -> None:
    made = authoriser(rule("t", Op.WRITE), rule("t", Op.READ, AclPermission.DENY))
    assert ask(made, Question("User:a", "1.1.1.1", Op.DESCRIBE, TOPIC, "t"))


def test_an_address_is_the_same_however_it_is_written() -> None:
    made = authoriser(
        rule("t", Op.READ, host="::1"),
        rule("t", Op.WRITE, host="10.0.0.1"),
        rule("t", Op.READ, AclPermission.DENY, host="fe80:0:0:0:0:0:0:1"),
    )
    read = Question("User:a", "0:0:0:0:0:0:0:1", Op.READ, TOPIC, "t")
    assert ask(made, read)
    assert ask(made, Question("User:a", "::ffff:10.0.0.1", Op.WRITE, TOPIC, "t"))
    assert not ask(made, read._replace(host="fe80::1"))


def test_any_change_of_rules_drops_what_was_decided() -> None:
    allow = rule("t", Op.READ)
    made, asked = authoriser(allow), Question("User:a", "1.1.1.1", Op.READ, TOPIC, "t")
    assert ask(made, asked)
    assert made.decision_count == 1
    made.change([], [(ident(allow), allow)])
    assert made.decision_count == 0
    assert not ask(made, asked)


def test_decisions_take_a_bounded_memory_and_long_names_none() -> None:
    made = authoriser(rule("t", Op.READ, pattern=AclPattern.PREFIXED))
    asked = Question("User:a", "1.1.1.1", Op.READ, TOPIC, "t")
    ask(made, asked._replace(name="t" * (NAME_CHARACTERS_KEPT + 1)))
    assert made.decision_count == 0
    for number in range(3 * DECISIONS_MAX):
        assert ask(made, asked._replace(name=f"t{number}"))
        assert ask(made, asked)  # asked often: stays
        assert made.decision_count <= 2 * DECISIONS_MAX


def test_a_question_looks_at_few_of_ten_thousand_rules() -> None:
    """Ten thousand rules of other users cost a new decision hardly more than ten."""
    others = [
        rule(f"topic-{number}", Op.READ, principal=f"User:u{number % 500}")
        for number in range(10_000)
    ]
    few, many = authoriser(*others[:10]), authoriser(*others)

    def looked_up(made: AclAuthoriser) -> int:
        began = time.thread_time_ns()
        for number in range(2_000):
            ask(made, Question("User:u7", "1.1.1.1", Op.READ, TOPIC, f"new-{number}"))
        return time.thread_time_ns() - began

    assert (
        min(looked_up(many) for _ in range(3)) < 4 * min(looked_up(few) for _ in range(3)) + 10**6
    )


def test_an_allowed_operation_includes_what_kafka_says_and_a_denied_one_nothing() -> None:
    included = {one: {one} for one in Op}
    included[Op.ALL] = set(Op)
    for wider in (Op.READ, Op.WRITE, Op.DELETE, Op.ALTER):
        included[wider].add(Op.DESCRIBE)
    included[Op.ALTER_CONFIGS].add(Op.DESCRIBE_CONFIGS)
    for named in Op:
        allowed = authoriser(rule("t", named))
        denied = authoriser(rule("t", named, AclPermission.DENY), rule("t", Op.ALL))
        for one in set(Op) - {Op.ALL}:
            asked = Question("User:a", "1.1.1.1", one, TOPIC, "t")
            assert ask(allowed, asked) is (one in included[named]), (named, one)
            assert ask(denied, asked) is not (named in {one, Op.ALL}), (named, one)
