"""How Spark reads what the tier has: whether, and what it needs to know beside what brokers tell.

A secret is never an option, since options are part of a query's plan: it is in a file that driver
and executors have, or in their environment.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.spark.errors import OptionError

AUTO, OFF, REQUIRED = "auto", "off", "required"
OPTION_NAMES = (
    *("tier", "tierurl", "tierendpoint", "tierregion"),
    *("tieraccesskeyid", "tiersecretkeyfile"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierOptions:
    """What is empty is as the brokers tell it, or as the environment has it."""

    use: str = AUTO
    """`auto`: from the store, and from brokers where that can not be reached; `required`: what the
    store has is never asked of brokers; `off`: all is."""

    url: str = ""
    """Where driver and executors find the store, if not where the nodes do."""

    endpoint: str = ""
    region: str = ""
    access_key_id: str = ""
    secret_key_file: str = ""
    """File with the secret of this key, on driver and executors."""

    def __post_init__(self) -> None:
        """Raise OptionError for values that can not be used."""
        if self.use not in (AUTO, OFF, REQUIRED):
            raise OptionError(f"tier: {AUTO}, {OFF} or {REQUIRED}, not {self.use!r}")
        if bool(self.access_key_id) != bool(self.secret_key_file):
            raise OptionError("tierAccessKeyId and tierSecretKeyFile go together: give both")


def tier_options(given: Mapping[str, str]) -> TierOptions:
    """Return the options of this name among all of a reader's. Raises OptionError."""
    return TierOptions(
        use=given.get("tier", AUTO).strip().lower(),
        url=given.get("tierurl", ""),
        endpoint=given.get("tierendpoint", ""),
        region=given.get("tierregion", ""),
        access_key_id=given.get("tieraccesskeyid", ""),
        secret_key_file=given.get("tiersecretkeyfile", ""),
    )
