"""Where the tier's objects are, and how they are made.

Source: docs/adr/0117, docs/adr/0121. Fields ending in `_ms` are milliseconds.
"""

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from annotated_types import Ge, Le

from penstock.base.errors import ConfigError
from penstock.tier.copies.merge_plan import RUNS_MAX, MergeRules
from penstock.tier.hdfs_place import hdfs_place
from penstock.tier.metadata.times import TierTimes

MERGE_TIME_SHARE = 4
"""Each byte is read and written, and that is to take half of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierConfig:
    """The object store of a cluster. All nodes of a cluster have the same values."""

    url: str = ""
    """`s3://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` of Azure, `hdfs://HOST:PORT/DIRECTORY`,
    `hdfs://NAME/DIRECTORY`, or `file:///DIRECTORY` of a file system that all nodes share; empty:
    nothing is copied. Nothing else may write below it. A store that had objects of this cluster may
    not be changed for another one."""

    endpoint: str = ""
    """Of S3, with `http://` or `https://`; of Azure, empty for `https://ACCOUNT.blob.core.windows.net`,
    else where the account is; of HDFS, where the URL has a name and no port, its NameNodes:
    `HOST:PORT,HOST:PORT`."""

    region: str = "us-east-1"
    """Of S3."""

    access_key_id: str = ""
    """Who asks S3; of Azure, the storage account."""

    secret_key_file: str = ""
    """File with the secret of this key, or a key of this account, and nothing else."""

    user: str = ""
    """Who asks HDFS, which believes it; empty: HADOOP_USER_NAME of the environment, or else the
    user of the process. Kerberos is not supported."""

    object_bytes: Annotated[int, Ge(4096), Le(512 << 20)] = 64 << 20
    """Of an object, about. While it is built and put, it is in memory; two at a time in a node."""

    merge_bytes: Annotated[int, Ge(0), Le(512 << 20)] = 64 << 20
    """Small runs of a partition that follow each other become one object when they are so many
    bytes together; small is less than half of it. 0: nothing is merged. While it is built and put,
    it is in memory; one at a time in a node."""

    merge_ms: Annotated[int, Ge(1_000), Le(31_536_000_000)] = 86_400_000
    """Fewer bytes are merged when the oldest of them are so old and there are `merge_runs`. A run
    goes as a whole: what is merged may stay for so much longer than `retention.ms` in the store,
    and than `local.retention.ms` on the disks."""

    merge_runs: Annotated[int, Ge(2), Le(RUNS_MAX)] = 8
    """Runs of the same age of rewriting that are merged because they are old: fewer leave fewer
    objects, and write each byte more often."""

    merge_bytes_per_second: Annotated[int, Ge(65_536), Le(1 << 34)] = 16 << 20
    """What all merges of a node read from the store and write to it, together."""

    look_ms: Annotated[int, Ge(10), Le(3_600_000)] = 10_000
    """Between two looks at a log that had nothing to copy, and at what is to be deleted."""

    upload_ms: Annotated[int, Ge(1_000), Le(86_400_000)] = 600_000
    """How long an upload may take. Whatever is not committed then is given up, and deleted."""

    skew_ms: Annotated[int, Ge(1_000), Le(86_400_000)] = 300_000
    """For how long after that a put may still be under way in the store or the network; until then
    an object's place is not considered clean."""

    lease_ms: Annotated[int, Ge(1_000), Le(86_400_000)] = 1_800_000
    """For how long readers use what they know of objects."""

    grace_ms: Annotated[int, Ge(1_001), Le(604_800_000)] = 3_600_000
    """For how long an object stays in the store after retention, or the deletion of its topic, has
    taken the last of it. Longer than `lease_ms`."""

    read_ms: Annotated[int, Ge(100), Le(300_000)] = 10_000
    """How long a fetch, or a look-up by time, waits for what only the store has; then the client is
    told to ask again. Kafka waits for 500 ms. (remote.fetch.max.wait.ms)"""

    reads_at_once: Annotated[int, Ge(1), Le(256)] = 8
    """Reads from the store for clients that are in progress in a node; others wait for them."""

    reads_of_client: Annotated[int, Ge(1), Le(256)] = 4
    """Of one connection, those that wait among them; a fetch gets its other partitions later."""

    read_bytes: Annotated[int, Ge(1 << 20), Le(1 << 34)] = 64 << 20
    """Bytes that are asked for from the store at once, by all reads for clients together; a batch
    that is larger comes alone."""

    cache_bytes: Annotated[int, Ge(0), Le(1 << 38)] = 64 << 20
    """Memory for blocks that were read from the store for clients; 0: every fetch reads anew."""

    def __post_init__(self) -> None:
        """Check what belongs together. Raises ConfigError."""
        self.times()
        if not self.url:
            return
        place = self.place()
        match place.scheme:
            case "s3" if place.netloc:
                self._check_bucket("a bucket of S3", "endpoint")
            case "az" if place.netloc:
                self._check_bucket("a container of Azure")
            case "hdfs":
                hdfs_place(place, self.endpoint)
            case "file" if not place.netloc and place.path.startswith("/"):
                pass
            case _:
                raise ConfigError(
                    "tier.url is s3://BUCKET/PREFIX, az://CONTAINER/PREFIX,"
                    " hdfs://HOST:PORT/DIRECTORY or file:///DIRECTORY, and not"
                    f" {self.url!r}"
                )
        if self.user and place.scheme != "hdfs":
            raise ConfigError("tier.user is for hdfs:// alone")

    def _check_bucket(self, what: str, *more: str) -> None:
        for name in (*more, "access_key_id", "secret_key_file"):
            if not getattr(self, name):
                raise ConfigError(f"tier.url names {what}: tier.{name} is missing")

    def merge_rules(self) -> MergeRules | None:
        """Return what is merged, which fits into half the time of an upload; None: nothing is."""
        in_time = self.merge_bytes_per_second * self.upload_ms // 1000 // MERGE_TIME_SHARE
        object_bytes = min(self.merge_bytes, in_time)
        if not object_bytes:
            return None
        return MergeRules(object_bytes, self.merge_ms, self.merge_runs)

    def place(self) -> SplitResult:
        """Return the parts of `url`."""
        return urlsplit(self.url)

    def times(self) -> TierTimes:
        """Return the times that the metadata goes by. Raises ConfigError."""
        return TierTimes(
            upload_ms=self.upload_ms,
            skew_ms=self.skew_ms,
            lease_ms=self.lease_ms,
            grace_ms=self.grace_ms,
        )
