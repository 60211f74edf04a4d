"""Changes of users' SCRAM credentials.

All changes of one user happen or none. A user may have a credential of each mechanism.

Source: Kafka `ScramControlManager`, KIP-554.
"""

from penstock.base.errors import as_answer
from penstock.controller.commands.access.commands import (
    AlterScram,
    ScramOutcome,
    ScramRemoval,
    ScramUpsert,
)
from penstock.controller.commands.access.login_secret import chosen_secret
from penstock.controller.commands.context import CommandContext, Result
from penstock.controller.errors import (
    CredentialNotFound,
    DuplicateCredential,
    MetadataPolicyViolation,
    RefusedCommand,
    UnacceptableCredential,
    UnknownScramMechanism,
)
from penstock.controller.metadata.config_records import (
    CONFIGURATION_LEVEL,
    ScramCredentialChanged,
    ScramCredentialRemoved,
    ScramMechanism,
)
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.records import MetadataRecord

ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 16_384
"""Kafka's bounds."""
USER_CHARACTERS_MAX = 1_024
BYTES_MAX = 1_024
"""Of a salt; keys have the size of their hash."""
KEY_BYTES = {ScramMechanism.SHA_256: 32, ScramMechanism.SHA_512: 64}
CREDENTIALS_MAX = 100_000
"""All processes hold them in memory, with 400 bytes each."""


def alter_scram(context: CommandContext, command: AlterScram) -> Result[tuple[ScramOutcome, ...]]:
    """Change what can be changed, user by user."""
    image = context.image
    is_late = image.configuration.credentials or image.metadata_level < CONFIGURATION_LEVEL
    if command.is_first and is_late:
        return Result(())
    by_user: dict[str, list[ScramUpsert | ScramRemoval]] = {}
    for change in command.changes:
        by_user.setdefault(change.user, []).append(change)
    outcomes: list[ScramOutcome] = []
    records: list[MetadataRecord] = []
    for user, own in by_user.items():
        error: RefusedCommand | None = None
        try:
            if len({one.mechanism for one in own}) < len(own):
                raise DuplicateCredential("A credential is changed once in a request.")
            records += [_record(image, one) for one in own]
        except RefusedCommand as refused:
            error = as_answer(refused)
        outcomes.append(ScramOutcome(user=user, error=error))
    is_more = any(isinstance(one, ScramCredentialChanged) for one in records)
    if is_more and len(image.configuration.credentials) + len(records) > CREDENTIALS_MAX:
        raise MetadataPolicyViolation(f"{CREDENTIALS_MAX} credentials are the most.")
    secret = chosen_secret(context) if is_more else ()
    return Result(tuple(outcomes), (*secret, *records))


_MECHANISMS = frozenset(map(int, ScramMechanism))


def _record(image: ClusterImage, change: ScramUpsert | ScramRemoval) -> MetadataRecord:
    if not change.user:
        raise UnacceptableCredential("A user has a name.")
    if change.mechanism not in _MECHANISMS:
        # No exception of an enum: it would keep the frames that keep the answer.
        raise UnknownScramMechanism(f"SCRAM mechanism {change.mechanism} is unknown.")
    mechanism = ScramMechanism(change.mechanism)
    if isinstance(change, ScramRemoval):
        if (change.user, mechanism) not in image.configuration.credentials:
            raise CredentialNotFound("The user has no such credential.")
        return ScramCredentialRemoved(user=change.user, mechanism=mechanism)
    _check(change, mechanism)
    return ScramCredentialChanged(
        user=change.user,
        mechanism=mechanism,
        salt=change.salt,
        stored_key=change.stored_key,
        server_key=change.server_key,
        iterations=change.iterations,
    )


def _check(change: ScramUpsert, mechanism: ScramMechanism) -> None:
    if len(change.user) > USER_CHARACTERS_MAX:
        raise UnacceptableCredential(f"A name has {USER_CHARACTERS_MAX} characters at most.")
    if not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
        raise UnacceptableCredential(
            f"A credential has {ITERATIONS_MIN} to {ITERATIONS_MAX} iterations."
        )
    if not 0 < len(change.salt) <= BYTES_MAX:
        raise UnacceptableCredential(f"A salt has 1 to {BYTES_MAX} bytes.")
    size = KEY_BYTES[mechanism]
    if {len(change.stored_key), len(change.server_key)} != {size}:
        raise UnacceptableCredential(f"A salted password is not empty; its keys have {size} bytes.")
