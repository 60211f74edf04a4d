"""Commands that change who may connect, and what clients may do and take: ACLs, SCRAM, quotas.

Source: Kafka's CreateAcls, DeleteAcls, AlterUserScramCredentials and AlterClientQuotas requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.access.rules import Rule
from penstock.controller.commands.command import Command
from penstock.controller.errors import MetadataError
from penstock.quotas.entities import QuotaPart


@dataclass(frozen=True, slots=True, kw_only=True)
class AclOutcome:
    """The outcome of one ACL: it is there, or `error` says why not."""

    error: MetadataError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddAcls(Command[tuple[AclOutcome, ...]]):
    """Add ACLs, each once; one that is there already is no error. Outcomes are in their order."""

    acls: tuple[Rule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveAcls(Command[tuple[bytes, ...]]):
    """Remove ACLs by their ids; answers the ids that were there, and now are not.

    Without ids it changes nothing, and the answer means that the caller's image holds all that was
    confirmed before it asked.
    """

    acl_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramUpsert:
    """A user gets a credential of a mechanism (Kafka's number), in place of an earlier one."""

    user: str
    mechanism: int
    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramRemoval:
    """A user loses a credential of a mechanism (Kafka's number)."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramOutcome:
    """What became of all changes of one user."""

    user: str
    error: MetadataError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterScram(Command[tuple[ScramOutcome, ...]]):
    """Change users' SCRAM credentials. Answers each user once, in the order of `changes`.

    With `is_first` it does nothing, and answers nobody, where there are users already, or the
    metadata can not have any.
    """

    upserts: tuple[ScramUpsert, ...] = ()
    removals: tuple[ScramRemoval, ...] = ()
    is_first: bool = False

    @property
    def changes(self) -> tuple[ScramUpsert | ScramRemoval, ...]:
        """All of them, removals first."""
        return (*self.removals, *self.upserts)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaChange:
    """Quotas of an entity by key; None takes one away."""

    entity: tuple[QuotaPart, ...]
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaOutcome:
    """What became of all changes of one entity."""

    error: MetadataError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuotas(Command[tuple[QuotaOutcome, ...]]):
    """Change quotas, of each entity all or none. Outcomes are in their order."""

    changes: tuple[QuotaChange, ...]
    validate_only: bool = False
