"""Generated rules and questions, and the plain model that they are compared with.

The model is the text of the specification, rule by rule, without an index and without a memory.
"""

from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import strategies as st

from penstock.access.rules import AclOperation as Op
from penstock.access.rules import AclPattern, AclPermission, AclResource, Rule

PRINCIPALS = ("User:a", "User:b", "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "::1")
NAMES = ("a", "ab", "abc", "b", "hardcode", "*")
INCLUDES_DESCRIBE = {Op.READ, Op.WRITE, Op.DELETE, Op.ALTER}

rules = st.builds(
    Rule,
    resource_type=st.sampled_from((AclResource.TOPIC, AclResource.GROUP)),
    resource_name=st.sampled_from(NAMES),
    pattern=st.sampled_from(AclPattern),
    principal=st.sampled_from(PRINCIPALS),
    host=st.sampled_from((*HOSTS, "*", "0:0:0:0:0:0:0:1")),
    operation=st.sampled_from(Op),
    permission=st.sampled_from(AclPermission),
)

close_rules = st.builds(
    Rule,
    resource_type=st.just(AclResource.TOPIC),
    resource_name=st.sampled_from(("a", "b", "ab")),
    pattern=st.sampled_from(AclPattern),
    principal=st.sampled_from(("User:a", "User:*")),
    host=st.just("*"),
    operation=st.sampled_from((Op.READ, Op.ALL)),
    permission=st.sampled_from(AclPermission),
)
"""Few of them differ, so that those of one set stand beside each other and above each other."""


class Question(NamedTuple):
    """Who asks, and for what."""

    principal: str
    host: str
    operation: Op
    resource: AclResource
    name: str


questions = st.builds(
    Question,
    st.sampled_from(PRINCIPALS[:2]),
    st.sampled_from(HOSTS),
    st.sampled_from([one for one in Op if one is not Op.ALL]),
    st.sampled_from((AclResource.TOPIC, AclResource.GROUP)),
    st.sampled_from((*NAMES[:5], "abcd", "x")),
)

close_questions = st.builds(
    Question,
    st.just("User:a"),
    st.just(HOSTS[0]),
    st.just(Op.READ),
    st.just(AclResource.TOPIC),
    st.sampled_from(("a", "b", "ab", "abc")),
)


def concerns(rule: Rule, asked: Question) -> bool:
    """Whether the rule is about the resource."""
    if rule.resource_type is not asked.resource:
        return False
    if rule.pattern is AclPattern.PREFIXED:
        return asked.name.startswith(rule.resource_name)
    return rule.resource_name in {asked.name, "*"}


def is_of(rule: Rule, asked: Question) -> bool:
    """Whether the rule is about whoever asks."""
    host = rule.host.replace("0:0:0:0:0:0:0:1", "::1")
    return rule.principal in {asked.principal, "User:*"} and host in {asked.host, "*"}


def model(
    kept: Iterable[Rule], asked: Question, *, super_users: Iterable[str] = (), if_none: bool = False
) -> bool:
    """Return what Kafka decides."""
    if asked.principal in super_users:
        return True
    found = [rule for rule in kept if concerns(rule, asked)]
    mine = [rule for rule in found if is_of(rule, asked)]
    denied = {one.operation for one in mine if one.permission is AclPermission.DENY}
    allowed = {one.operation for one in mine if one.permission is AclPermission.ALLOW}
    if denied & {asked.operation, Op.ALL}:
        return False
    if asked.operation is Op.DESCRIBE and allowed & INCLUDES_DESCRIBE:
        return True
    if asked.operation is Op.DESCRIBE_CONFIGS and Op.ALTER_CONFIGS in allowed:
        return True
    return bool(allowed & {asked.operation, Op.ALL}) or (not found and if_none)


def model_of_some(
    kept: Iterable[Rule], asked: Question, *, super_users: Iterable[str] = (), if_none: bool = False
) -> bool:
    """Return what Kafka's `Authorizer.authorizeByResourceType` decides; the name is not asked."""
    kept = list(kept)
    hardcoded = asked._replace(name="hardcode")
    if model(kept, hardcoded, super_users=super_users, if_none=if_none):
        return True
    mine = [
        rule
        for rule in kept
        if rule.resource_type is asked.resource
        and is_of(rule, asked)
        and rule.operation in {asked.operation, Op.ALL}
    ]
    deny = [rule for rule in mine if rule.permission is AclPermission.DENY]
    literal = {rule.resource_name for rule in deny if rule.pattern is AclPattern.LITERAL}
    prefixes = [rule.resource_name for rule in deny if rule.pattern is AclPattern.PREFIXED]
    if "*" in literal:
        return False
    for rule in mine:
        if rule.permission is AclPermission.DENY:
            continue
        is_literal = rule.pattern is AclPattern.LITERAL
        if is_literal and rule.resource_name == "*":
            return True
        is_covered = any(rule.resource_name.startswith(prefix) for prefix in prefixes)
        if not is_covered and not (is_literal and rule.resource_name in literal):
            return True
    return False
