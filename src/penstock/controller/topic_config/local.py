"""What of a topic is in the object store, and what of that stays on the nodes' disks.

    remote.storage.enable      true: closed files are copied
    remote.log.copy.disable    true: nothing new is copied; what is there is read, and expires
    local.retention.*          said, -2 too: records may be in the store alone

Such a topic, or one whose copying is disabled, stays one whose records may be in the store alone:
where a change takes the last key that says so, local.retention.ms is set to -2. The one way out is
`remote.storage.enable=false` with `remote.log.delete.on.disable=true`, which deletes the copies;
the partition begins at its local start then (docs/adr/0142).

Source: KIP-405 (names, -2, -1); KIP-950, and Kafka 4.2 `LogConfig` for its rules and their texts.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from penstock.configs import keys
from penstock.configs.entry import ConfigType
from penstock.configs.keys import INT64_MAX, BrokerName, TopicConfigKey
from penstock.controller.errors import InvalidConfig

REMOTE = "remote.storage.enable"
COPY_DISABLE, DELETE_ON_DISABLE = "remote.log.copy.disable", "remote.log.delete.on.disable"
LOCAL_MS, LOCAL_BYTES = "local.retention.ms", "local.retention.bytes"
FOLLOWS = "-2"
"""Of these two: as long as the records are kept at all."""
_WHOLE = ((LOCAL_BYTES, "retention.bytes"), (LOCAL_MS, "retention.ms"))

_LOCAL_DIFFERS = (
    "has effect with remote.storage.enable=true; once one of the two is said there, -2 included,"
    " members delete nothing by themselves, and what is not in the object store is not deleted"
)

ROWS = (
    TopicConfigKey(
        key=COPY_DISABLE,
        config_type=ConfigType.BOOLEAN,
        documentation=(
            "Whether copying into the object store stops: what is there is still read, and expires."
        ),
        parse=keys.boolean,
        fixed_default="false",
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key=DELETE_ON_DISABLE,
        config_type=ConfigType.BOOLEAN,
        documentation=(
            "Whether what the object store has is deleted when remote.storage.enable is switched"
            " off, which is refused else: the log begins at what the disks have then."
        ),
        parse=keys.boolean,
        fixed_default="false",
        is_since_level_2=True,
    ),
    TopicConfigKey(
        key=LOCAL_MS,
        config_type=ConfigType.LONG,
        documentation=(
            "How long records that were copied into the object store stay on the nodes' disks, too;"
            " -2: as long as retention.ms keeps them, -1: no limit."
        ),
        parse=keys.number(-2, INT64_MAX),
        broker_names=(BrokerName("log.local.retention.ms"),),
        fixed_default=FOLLOWS,
        is_since_level_2=True,
        differs=_LOCAL_DIFFERS,
    ),
    TopicConfigKey(
        key=LOCAL_BYTES,
        config_type=ConfigType.LONG,
        documentation=(
            "Bytes of a partition that stay on the nodes' disks of what was copied into the object"
            " store; -2: as many as retention.bytes keeps, -1: no limit."
        ),
        parse=keys.number(-2, INT64_MAX),
        broker_names=(BrokerName("log.local.retention.bytes"),),
        fixed_default=FOLLOWS,
        is_since_level_2=True,
        differs=_LOCAL_DIFFERS,
    ),
)


class Whole(Protocol):
    """What of a topic is kept at all."""

    @property
    def retention_ms(self) -> int: ...

    @property
    def retention_bytes(self) -> int: ...


class LocalLimits(NamedTuple):
    """What of a partition that may be in the store alone stays on the nodes' disks.

    -2: what is kept at all, -1: all.
    """

    ms: int
    bytes: int
    is_copied: bool = True
    """Whether what is new is copied. Else each member deletes by itself what is kept no more."""


def local_limits(overrides: Mapping[str, str]) -> LocalLimits | None:
    """Return what checked overrides limit; None: all that the store has is on the disks, too."""
    is_copied = overrides.get(COPY_DISABLE) != "true"
    is_said = LOCAL_MS in overrides or LOCAL_BYTES in overrides
    if overrides.get(REMOTE) != "true" or (is_copied and not is_said):
        return None
    ms, size = overrides.get(LOCAL_MS, FOLLOWS), overrides.get(LOCAL_BYTES, FOLLOWS)
    return LocalLimits(int(ms), int(size), is_copied)


def is_copied(overrides: Mapping[str, str]) -> bool:
    """Whether what is new in a topic is copied into the object store."""
    return overrides.get(REMOTE) == "true" and overrides.get(COPY_DISABLE) != "true"


def is_deleted_from_store(overrides: Mapping[str, str]) -> bool:
    """Whether the object store is to have nothing of the topic any more."""
    return overrides.get(REMOTE) != "true" and overrides.get(DELETE_ON_DISABLE) == "true"


def check_local(before: Mapping[str, str], wanted: dict[str, str], settings: Whole) -> None:
    """Raise InvalidConfig where a change would take what only the object store has, or is vain.

    `settings`: all of the topic with the change. What has to be said further is added to `wanted`.
    """
    if before.get(REMOTE) == "true" != wanted.get(REMOTE):
        _check_end(wanted)
    if local_limits(before) is not None and wanted.get(REMOTE) == "true":
        _stay_limited(wanted)
    if wanted.get(REMOTE) == wanted.get(COPY_DISABLE) == "true":
        _check_no_copies(wanted, settings)
    for key, name in _WHOLE:
        local, most = int(wanted.get(key, FOLLOWS)), wanted.get(name)
        if most is not None and 0 <= int(most) < local:
            raise InvalidConfig(key, f"{local} is more than {name}, {most}")


def _check_end(wanted: Mapping[str, str]) -> None:
    if wanted.get(DELETE_ON_DISABLE) != "true":
        raise InvalidConfig(
            REMOTE,
            "It is invalid to disable remote storage without deleting remote data. If you want to"
            " keep the remote data and turn to read only, please set"
            " `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable"
            " remote storage and delete all remote data, please set"
            " `remote.storage.enable=false,remote.log.delete.on.disable=true`.",
        )


def _stay_limited(wanted: dict[str, str]) -> None:
    """Have a topic of which the store may have records alone say so."""
    if local_limits(wanted) is None:
        wanted[LOCAL_MS] = FOLLOWS


def _check_no_copies(wanted: Mapping[str, str], settings: Whole) -> None:
    """Check that disks keep all that is kept: nothing new comes into the store."""
    whole = settings.retention_bytes, settings.retention_ms
    for (key, name), most in zip(_WHOLE, whole, strict=True):
        local = wanted.get(key, FOLLOWS)
        if local not in {FOLLOWS, str(most)}:
            raise InvalidConfig(
                key,
                f"When `{COPY_DISABLE}` is set to true, the `{key}` and `{name}` must be set to the"
                " identical value because there will be no more logs copied to the remote storage.",
            )
