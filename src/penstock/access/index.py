"""All rules, so arranged that a question meets those that match, and no others.

    (resource type, principal) ─► literal[name], literal["*"]         ─► by host: allowed, denied
                                  prefixed[name[:n]] for each n

A question looks up two principals (its own and everybody), and in each the name, the wildcard and
one prefix for each length that some rule's prefix has. What it costs does not depend on how many
rules there are, but for the number of such lengths.

    any matching deny                     denied
    else any matching allow               allowed
    else rules for the resource exist     denied
    else                                  as the setting says

An allowed Read, Write, Delete or Alter includes Describe, and AlterConfigs includes
DescribeConfigs; a denied one does not.

Source: KIP-11, KIP-290, KIP-679; Kafka `StandardAuthorizerData` (order, implied operations) and
`Authorizer.authorizeByResourceType`, which knows no implied operations. Hosts are compared as
addresses and not as texts: Java writes IPv6 in full, and people do not.
"""

from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, NamedTuple, TypeVar

from penstock.access.rules import (
    EVERYBODY,
    WILDCARD,
    AclOperation,
    AclPattern,
    AclPermission,
    Rule,
)

V = TypeVar("V")

_DESCRIBED_BY: Final = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DELETE,
    AclOperation.ALTER,
)
_ALL_BIT: Final = 1 << AclOperation.ALL


def _named(operation: int) -> int:
    """Return the bits of operations in rules that name this one."""
    return 1 << operation | _ALL_BIT


def _implied() -> dict[int, int]:
    """Return for each operation the bits of those that include it where they are allowed."""
    bits = {int(one): _named(one) for one in AclOperation}
    bits[AclOperation.DESCRIBE] |= sum(1 << one for one in _DESCRIBED_BY)
    bits[AclOperation.DESCRIBE_CONFIGS] |= 1 << AclOperation.ALTER_CONFIGS
    return bits


_ALLOWED_BY: Final = _implied()


class Verdict(IntEnum):
    """What the rules say of a question."""

    DENIED = 0
    ALLOWED = 1
    NO_RULES = 2
    """No rule is about the resource, whoever asks."""


class _Bits(NamedTuple):
    """Operations of the rules of one host, as bits."""

    allowed: int
    denied: int


class _Grants:
    """The rules of one principal and pattern, by host."""

    __slots__ = ("_rules", "bits")

    def __init__(self) -> None:
        self.bits: dict[str, _Bits] = {}
        self._rules: dict[str, dict[bytes, Rule]] = {}

    def add(self, acl_id: bytes, rule: Rule) -> None:
        host = host_key(rule.host)
        self._rules.setdefault(host, {})[acl_id] = rule
        self._count(host)

    def remove(self, acl_id: bytes, rule: Rule) -> None:
        host = host_key(rule.host)
        del self._rules[host][acl_id]
        self._count(host)

    def _count(self, host: str) -> None:
        rules = self._rules[host].values()
        if not rules:
            del self._rules[host], self.bits[host]
            return
        allowed = denied = 0
        for rule in rules:
            if rule.permission is AclPermission.ALLOW:
                allowed |= 1 << rule.operation
            else:
                denied |= 1 << rule.operation
        self.bits[host] = _Bits(allowed, denied)


class _Patterns(Generic[V]):
    """What is kept by pattern and name."""

    __slots__ = ("lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, V] = {}
        self.prefixed: dict[str, V] = {}
        self.lengths: Counter[int] = Counter()
        """How many prefixes there are of each length."""

    def matching(self, name: str) -> Iterator[V]:
        """Yield what is kept for patterns that match the name."""
        found = self.literal.get(name)
        if found is not None:
            yield found
        found = self.literal.get(WILDCARD)
        if found is not None and name != WILDCARD:
            yield found
        for length in self.lengths:
            if length <= len(name):
                found = self.prefixed.get(name[:length])
                if found is not None:
                    yield found

    def get(self, pattern: AclPattern, name: str) -> V | None:
        return (self.literal if pattern is AclPattern.LITERAL else self.prefixed).get(name)

    def put(self, pattern: AclPattern, name: str, value: V) -> None:
        if pattern is AclPattern.LITERAL:
            self.literal[name] = value
            return
        if name not in self.prefixed:
            self.lengths[len(name)] += 1
        self.prefixed[name] = value

    def drop(self, pattern: AclPattern, name: str) -> None:
        if pattern is AclPattern.LITERAL:
            del self.literal[name]
            return
        del self.prefixed[name]
        self.lengths[len(name)] -= 1
        if not self.lengths[len(name)]:
            del self.lengths[len(name)]

    @property
    def is_empty(self) -> bool:
        return not self.literal and not self.prefixed


class RuleIndex:
    """See the module."""

    __slots__ = ("_by_principal", "_counts")

    def __init__(self) -> None:
        self._by_principal: dict[tuple[int, str], _Patterns[_Grants]] = {}
        self._counts: dict[int, _Patterns[int]] = {}
        """How many rules each pattern of a resource type has, whomever they are about."""

    def add(self, acl_id: bytes, rule: Rule) -> None:
        """Take in a rule."""
        key = (int(rule.resource_type), rule.principal)
        patterns = self._by_principal.setdefault(key, _Patterns())
        grants = patterns.get(rule.pattern, rule.resource_name)
        if grants is None:
            grants = _Grants()
            patterns.put(rule.pattern, rule.resource_name, grants)
        grants.add(acl_id, rule)
        counts = self._counts.setdefault(rule.resource_type, _Patterns())
        count = counts.get(rule.pattern, rule.resource_name) or 0
        counts.put(rule.pattern, rule.resource_name, count + 1)

    def remove(self, acl_id: bytes, rule: Rule) -> None:
        """Forget a rule that was taken in under this id."""
        key = (int(rule.resource_type), rule.principal)
        patterns = self._by_principal[key]
        grants = patterns.get(rule.pattern, rule.resource_name)
        assert grants is not None, rule
        grants.remove(acl_id, rule)
        if not grants.bits:
            patterns.drop(rule.pattern, rule.resource_name)
        if patterns.is_empty:
            del self._by_principal[key]
        counts = self._counts[rule.resource_type]
        count = counts.get(rule.pattern, rule.resource_name) or 0
        if count > 1:
            counts.put(rule.pattern, rule.resource_name, count - 1)
        else:
            counts.drop(rule.pattern, rule.resource_name)

    def verdict(
        self, principal: str, host: str, operation: int, resource: int, name: str
    ) -> Verdict:
        """Return what the rules say; `host` is an address."""
        counts = self._counts.get(resource)
        if counts is None or next(counts.matching(name), None) is None:
            return Verdict.NO_RULES
        may, may_not = _ALLOWED_BY[operation], _named(operation)
        is_allowed = False
        for grants in self._grants(principal, resource, name):
            for bits in _of_host(grants, host):
                if bits.denied & may_not:
                    return Verdict.DENIED
                is_allowed = is_allowed or bool(bits.allowed & may)
        return Verdict.ALLOWED if is_allowed else Verdict.DENIED

    def _grants(self, principal: str, resource: int, name: str) -> Iterator[_Grants]:
        for who in (principal, EVERYBODY):
            patterns = self._by_principal.get((resource, who))
            if patterns is not None:
                yield from patterns.matching(name)

    def allows_some(self, principal: str, host: str, operation: int, resource: int) -> bool:
        """Whether some name could be that the rules allow the operation on (KIP-679).

        A literal deny counts against the same literal allow, a prefixed deny against all names
        that begin so; many literal denies never take away a prefix that is allowed.
        """
        wanted = _named(operation)
        allowed, denied = _Names(), _Names()
        for who in (principal, EVERYBODY):
            patterns = self._by_principal.get((resource, who))
            if patterns is not None:
                _collect(patterns, host, wanted, allowed, denied)
        if WILDCARD in denied.literal:
            return False
        if WILDCARD in allowed.literal:
            return True
        literals = (name for name in allowed.literal if name not in denied.literal)
        return any(
            not denied.has_prefix_of(name)
            for names in (literals, allowed.prefixed)
            for name in names
        )


class _Names:
    """Names of patterns; insertion order, so that all processes go through them alike."""

    __slots__ = ("literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, None] = {}
        self.prefixed: dict[str, None] = {}

    def has_prefix_of(self, name: str) -> bool:
        """Whether some prefix here is one of the name."""
        if not self.prefixed:
            return False
        return any(name[:end] in self.prefixed for end in range(1, len(name) + 1))


def _collect(
    patterns: _Patterns[_Grants], host: str, wanted: int, allowed: _Names, denied: _Names
) -> None:
    """Add the names of patterns by which an operation is allowed or denied to this host."""
    for kept, may, may_not in (
        (patterns.literal, allowed.literal, denied.literal),
        (patterns.prefixed, allowed.prefixed, denied.prefixed),
    ):
        for name, grants in kept.items():
            for bits in _of_host(grants, host):
                if bits.allowed & wanted:
                    may[name] = None
                if bits.denied & wanted:
                    may_not[name] = None


def _of_host(grants: _Grants, host: str) -> Iterator[_Bits]:
    for one in (host, WILDCARD):
        bits = grants.bits.get(one)
        if bits is not None:
            yield bits


def host_key(host: str) -> str:
    """Return one text for all ways to write an address; what is none stays as it is."""
    if host == WILDCARD:
        return host
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
