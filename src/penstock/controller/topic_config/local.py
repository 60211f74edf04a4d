"""What of a topic in the object store stays on the nodes' disks: local.retention.ms and .bytes.

Once one of the two is set, records may be in the store alone. So what would take them from there,
`remote.storage.enable=false` among it, is refused from then on (docs/adr/0124).

Source: KIP-405 (names, -2, -1); KIP-950 for what Kafka does when copying is switched off, which is
not offered here.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.configs import keys
from penstock.configs.entry import ConfigType
from penstock.configs.keys import INT64_MAX, BrokerName, TopicConfigKey
from penstock.controller.errors import InvalidConfig

REMOTE = "remote.storage.enable"
LOCAL_MS, LOCAL_BYTES = "local.retention.ms", "local.retention.bytes"
FOLLOWS = "-2"
"""Of these two: as long as the records are kept at all."""

_LOCAL_DIFFERS = (
    "has effect with remote.storage.enable=true; once one of the two is set there, they can not"
    " both go back to -2"
)

ROWS = (
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


class LocalLimits(NamedTuple):
    """What of a copied partition stays on the nodes' disks; -2: what is kept at all, -1: all."""

    ms: int
    bytes: int


def local_limits(overrides: Mapping[str, str]) -> LocalLimits | None:
    """Return what checked overrides limit; None: nothing goes from the disks for being copied."""
    ms, size = overrides.get(LOCAL_MS, FOLLOWS), overrides.get(LOCAL_BYTES, FOLLOWS)
    if overrides.get(REMOTE) != "true" or ms == size == FOLLOWS:
        return None
    return LocalLimits(int(ms), int(size))


def check_local(before: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise InvalidConfig where a change would take what only the object store has, or is vain."""
    if local_limits(before) is not None and local_limits(wanted) is None:
        raise InvalidConfig(
            REMOTE if wanted.get(REMOTE) != "true" else LOCAL_MS,
            "records of this topic may be in the object store alone: leave remote.storage.enable on"
            " and one of local.retention.ms and local.retention.bytes set; -1 keeps on the disks"
            " what is written from now on",
        )
    for key, whole in ((LOCAL_MS, "retention.ms"), (LOCAL_BYTES, "retention.bytes")):
        local, most = int(wanted.get(key, FOLLOWS)), wanted.get(whole)
        if most is not None and 0 <= int(most) < local:
            raise InvalidConfig(key, f"{local} is more than {whole}, {most}")
