"""The tier's port of Azure Blob Storage, through `obstore`: a container of a storage account.

Puts are conditional by entity tags, as of S3. The service calls a name that is gone an error of its
deletion, and the library raises it for a whole list: so names are deleted one by one, some at once.

Source: docs/adr/0188; the port, tier/port.py.

Deliberately not here: signatures for a part of an account, tokens, and what a machine in Azure is
given by itself.
"""

import asyncio
from base64 import b64decode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.base.errors import ConfigError
from penstock.runtime.io.object_store import (
    BucketSettings,
    ObjectStoreByLibrary,
    require,
    told,
)
from penstock.tier.errors import ObjectNotFound
from penstock.tier.port import DELETE_NAMES_MAX

DELETES_AT_ONCE = 16
"""Requests of one delete that are under way."""
OF_ACCOUNT = "https://{account}.blob.core.windows.net"
"""Where Azure itself has an account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureSettings(BucketSettings):
    """A container of a storage account, and a key of the account."""

    account: str
    account_key: str = field(repr=False)


def open_azure(settings: AzureSettings) -> "AzureContainer":
    """Return a container as a store. Nothing is asked of it yet. Raises ConfigError."""
    require()
    from obstore.exceptions import BaseError  # noqa: PLC0415  only who uses a store has the package
    from obstore.store import AzureStore  # noqa: PLC0415  as above

    endpoint = settings.endpoint or OF_ACCOUNT.format(account=settings.account)
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigError(f"the endpoint of Azure is https://HOST, and not {endpoint!r}")
    try:
        b64decode(settings.account_key, validate=True)
    except ValueError:
        raise ConfigError(
            "a key of an Azure storage account is base64, and this one is not: copy it from the"
            " account's access keys"
        ) from None
    try:
        library = AzureStore(
            settings.bucket,
            account_name=settings.account,
            account_key=settings.account_key,
            credential_type="access_key",  # whatever the environment says besides
            endpoint=endpoint,
            **settings.asked(),
        )
    except BaseError as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"Azure can not be used by these settings: {reason}") from error
    return AzureContainer(library)


class AzureContainer(ObjectStoreByLibrary):
    """See the module."""

    async def delete(self, names: Sequence[str]) -> None:
        """As the port says."""
        assert len(names) <= DELETE_NAMES_MAX, "more than is taken at a time"
        for at in range(0, len(names), DELETES_AT_ONCE):
            some = names[at : at + DELETES_AT_ONCE]
            await asyncio.gather(*(self._delete(name) for name in some))

    async def _delete(self, name: str) -> None:
        with suppress(ObjectNotFound), told(name):
            await self._api.delete_async(self._library, name)
