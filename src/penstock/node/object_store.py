"""The object store that a node's settings name.

Source: docs/adr/0117, docs/adr/0121.
"""

from collections.abc import Callable
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.runtime.io.object_store import S3Settings, open_directory, open_s3
from penstock.tier.config import TierConfig
from penstock.tier.hdfs_place import hdfs_place
from penstock.tier.port import ObjectStore

OpenStore = Callable[[TierConfig], ObjectStore]
"""Opens the store that the settings name. Raises ConfigError."""


def open_store(config: TierConfig) -> ObjectStore:
    """Return the store that the settings name. Nothing is asked of it yet. Raises ConfigError."""
    place = config.place()
    match place.scheme:
        case "file":
            return open_directory(Path(place.path))
        case "hdfs":
            return _open_hdfs(config)
        case "az":
            return _open_azure(config)
        case _:
            return _open_s3(config)


def _open_hdfs(config: TierConfig) -> ObjectStore:
    from penstock.runtime.io.hdfs_store import (  # noqa: PLC0415  few nodes have it
        HdfsSettings,
        open_hdfs,
    )

    where = hdfs_place(config.place(), config.endpoint)
    return open_hdfs(HdfsSettings(place=where, user=config.user))


def _open_azure(config: TierConfig) -> ObjectStore:
    from penstock.runtime.io.azure_store import (  # noqa: PLC0415  few nodes have it
        AzureSettings,
        open_azure,
    )

    place = config.place()
    return open_azure(
        AzureSettings(
            bucket=place.netloc,
            endpoint=config.endpoint,
            account=config.access_key_id,
            account_key=_secret(config),
            prefix=place.path.strip("/"),
        )
    )


def _open_s3(config: TierConfig) -> ObjectStore:
    place = config.place()
    return open_s3(
        S3Settings(
            bucket=place.netloc,
            endpoint=config.endpoint,
            region=config.region,
            access_key_id=config.access_key_id,
            secret_access_key=_secret(config),
            prefix=place.path.strip("/"),
        )
    )


def _secret(config: TierConfig) -> str:
    try:
        return Path(config.secret_key_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tier.secret_key_file can not be read: {error}") from error
