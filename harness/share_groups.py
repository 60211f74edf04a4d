"""What share groups are told before anybody joins them."""

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

LOCK_MS = 15_000
"""As short as Kafka allows."""
CALL_SECONDS = 30.0


def configure_group(bootstrap: str, group: str, **more: str) -> None:
    """Let a share group begin at the beginning, with locks as short as may be.

    `more`: other keys, with `_` for `.`.
    """
    keys = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": str(LOCK_MS),
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        for key, value in keys.items()
    ]
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.incremental_alter_configs([resource])[resource].result(CALL_SECONDS)
