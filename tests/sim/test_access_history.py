"""The judge of access: what rules come to, and what a broker that lags may decide."""

from random import Random

import pytest

from penstock.access.authoriser import AclAuthoriser
from penstock.access.config import AccessConfig
from penstock.access.rules import (
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    Rule,
)
from simulator.clients.access.drawing import Names, draw_filter, draw_rule
from simulator.clients.access.questions import Asker
from simulator.history.access import Book, Passwords, Question, decides, decides_some

ALICE, HERE = "User:alice", "here"
READS = Question(ALICE, HERE, AclOperation.READ, AclResource.TOPIC, "a-x")
NAMES = Names("a-", ALICE, HERE)


def rule(
    name: str = "a-x",
    *,
    permission: AclPermission = AclPermission.ALLOW,
    operation: AclOperation = AclOperation.READ,
    pattern: AclPattern = AclPattern.LITERAL,
) -> Rule:
    return Rule(
        resource_type=AclResource.TOPIC,
        resource_name=name,
        pattern=pattern,
        principal=ALICE,
        host="*",
        operation=operation,
        permission=permission,
    )


ALLOWED, DENIED = rule(), rule(permission=AclPermission.DENY)


def reads(rules: object) -> bool:
    assert isinstance(rules, set | frozenset | tuple | list)
    return decides(rules, READS)


def test_the_model_and_the_authoriser_say_the_same_of_rules_that_are_drawn() -> None:
    """They share no code but the rules: a mistake of one of them shows."""
    draw = Random(1)
    asker = Asker(ALICE, HERE)
    allowed = 0
    for _ in range(300):
        rules = {draw_rule(NAMES, draw) for _ in range(draw.randint(1, 6))}
        authoriser = AclAuthoriser(AccessConfig())
        authoriser.change(
            [(bytes([at]), one) for at, one in enumerate(sorted(rules, key=repr))], []
        )
        for resource in AclResource:
            for operation in AclOperation:
                if operation is AclOperation.ALL:
                    continue
                for name in (*NAMES.all, "else", "kafka-cluster"):
                    asked = Question(ALICE, HERE, operation, resource, name)
                    said = authoriser.permits(asker, operation, resource, name)
                    assert said is decides(rules, asked), (asked, rules)
                    allowed += said
                some = Question(ALICE, HERE, operation, resource, "some topic")
                said = authoriser.permits_some(asker, operation, resource)
                assert said is (decides(rules, some) or decides_some(rules, some)), (some, rules)
    assert allowed > 1_000


def test_an_acknowledged_rule_has_to_decide_where_it_was_acknowledged_and_may_lag_elsewhere() -> (
    None
):
    book = Book()
    book.added([ALLOWED], is_known=True)
    assert book.explains(reads, is_allowed=True, is_current=True)
    assert not book.explains(reads, is_allowed=False, is_current=True)
    assert book.explains(reads, is_allowed=False, is_current=False)
    book.removed([ALLOWED], is_known=True)
    assert not book.explains(reads, is_allowed=True, is_current=True)
    assert book.explains(reads, is_allowed=True, is_current=False)


def test_what_no_rules_have_ever_allowed_is_wrong_wherever_it_is_said() -> None:
    book = Book()
    book.added([DENIED], is_known=True)
    book.added([ALLOWED], is_known=True)
    assert not book.explains(reads, is_allowed=True, is_current=False)


def test_a_change_without_an_answer_may_be_made_at_any_later_time() -> None:
    book = Book()
    book.added([ALLOWED], is_known=False)
    for _ in range(2):
        assert book.explains(reads, is_allowed=True, is_current=True)
        assert book.explains(reads, is_allowed=False, is_current=True)
        book.removed([ALLOWED], is_known=True)  # and the addition may come after it
    book.added([DENIED], is_known=True)
    assert not book.explains(reads, is_allowed=True, is_current=True)


@pytest.mark.parametrize("is_current", [True, False])
def test_a_password_that_never_was_is_not_let_in(is_current: bool) -> None:
    kept = Passwords()
    kept.changed("first", is_known=True)
    assert not kept.explains("wrong", is_let_in=True, is_current=is_current)
    assert kept.explains("wrong", is_let_in=False, is_current=is_current)


def test_an_old_password_is_let_in_by_those_alone_who_have_not_heard_of_the_new_one() -> None:
    kept = Passwords()
    kept.changed("first", is_known=True)
    kept.changed("second", is_known=True)
    assert kept.explains("first", is_let_in=True, is_current=False)
    assert not kept.explains("first", is_let_in=True, is_current=True)
    assert not kept.explains("second", is_let_in=False, is_current=True)
    kept.changed(None, is_known=False)
    assert kept.explains("second", is_let_in=False, is_current=True)
    assert kept.explains("second", is_let_in=True, is_current=True)


def test_filters_of_a_round_find_rules_of_that_round_alone() -> None:
    draw = Random(2)
    others = Names("b-", "User:bob", HERE)
    found = 0
    for _ in range(500):
        wanted = draw_filter(NAMES, draw)
        assert not wanted.finds(draw_rule(others, draw))
        found += wanted.finds(draw_rule(NAMES, draw))
    assert found > 50
