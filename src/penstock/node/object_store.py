"""The object store that a node's settings name.

Source: docs/adr/0117, docs/adr/0121.
"""

from collections.abc import Callable
from pathlib import Path

from penstock.base.errors import ConfigError
from penstock.runtime.io.object_store import S3Settings, open_directory, open_s3
from penstock.tier.config import TierConfig
from penstock.tier.port import ObjectStore

OpenStore = Callable[[TierConfig], ObjectStore]
"""Opens the store that the settings name. Raises ConfigError."""


def open_store(config: TierConfig) -> ObjectStore:
    """Return the store that the settings name. Nothing is asked of S3 yet. Raises ConfigError."""
    place = config.place()
    if place.scheme == "file":
        return open_directory(Path(place.path))
    try:
        secret = Path(config.secret_key_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tier.secret_key_file can not be read: {error}") from error
    return open_s3(
        S3Settings(
            bucket=place.netloc,
            endpoint=config.endpoint,
            region=config.region,
            access_key_id=config.access_key_id,
            secret_access_key=secret,
            prefix=place.path.strip("/"),
        )
    )
