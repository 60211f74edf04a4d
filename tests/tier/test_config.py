"""Settings of the tier: which places are taken, and what they need of the rest."""

from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.node.settings.settings import load_settings
from penstock.tier.config import TierConfig
from penstock.tier.copies.merge_plan import MergeRules
from penstock.tier.hdfs_place import hdfs_place

S3: dict[str, Any] = {
    "url": "s3://bucket/some/prefix",
    "endpoint": "https://s3.example",
    "access_key_id": "me",
    "secret_key_file": "secret",
}


AZURE: dict[str, Any] = {
    "url": "az://container/some/prefix",
    "access_key_id": "me",
    "secret_key_file": "secret",
}


def test_nothing_is_copied_by_default() -> None:
    assert TierConfig().url == ""


def test_a_bucket_and_a_directory_are_places() -> None:
    place = TierConfig(**S3).place()
    assert (place.netloc, place.path) == ("bucket", "/some/prefix")
    place = TierConfig(**AZURE).place()
    assert (place.netloc, place.path) == ("container", "/some/prefix")
    assert TierConfig(url="file:///mnt/shared").place().path == "/mnt/shared"


@pytest.mark.parametrize(
    "url",
    [
        *("s3://", "bucket", "file://host/mnt", "file:mnt", "http://bucket", "s3:/bucket"),
        *("az://", "gs://bucket/prefix", "azure://container"),
    ],
)
def test_what_is_no_place_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="hdfs://HOST:PORT/DIRECTORY or file:///DIRECTORY"):
        TierConfig(**{**S3, "url": url})


@pytest.mark.parametrize(
    ("url", "endpoint", "name_nodes", "directory"),
    [
        ("hdfs://one:8020/a/b", "", ("one:8020",), "/a/b"),
        ("hdfs://one:8020/a/", "", ("one:8020",), "/a"),
        ("hdfs://[::1]:8020/a", "", ("[::1]:8020",), "/a"),
        ("hdfs://name/a", "one:8020, two:8020", ("one:8020", "two:8020"), "/a"),
    ],
)
def test_an_hdfs_is_a_name_node_or_a_name_with_several(
    url: str, endpoint: str, name_nodes: tuple[str, ...], directory: str
) -> None:
    config = TierConfig(url=url, endpoint=endpoint, user="keeper")
    assert hdfs_place(config.place(), config.endpoint) == (name_nodes, directory)


@pytest.mark.parametrize(
    ("url", "endpoint", "reason"),
    [
        ("hdfs://name/a", "", "tier.endpoint tells the NameNodes"),
        ("hdfs://name/a", "one:8020,two", "tier.endpoint tells the NameNodes"),
        ("hdfs://name/a", "one:8020,", "tier.endpoint tells the NameNodes"),
        ("hdfs://name/a", "one:0", "tier.endpoint tells the NameNodes"),
        ("hdfs://name/a", "one:8020/x", "tier.endpoint tells the NameNodes"),
        ("hdfs://name/a", ",".join(f"n{at}:8020" for at in range(9)), "8 at most"),
        ("hdfs://one:99999/a", "", "tier.endpoint tells the NameNodes"),
        ("hdfs:///a", "one:8020", "tier.endpoint tells the NameNodes"),
        ("hdfs://one:8020/a", "two:8020", "leave one out"),
        ("hdfs://me@one:8020/a", "", "tier.user"),
        ("hdfs://one:8020", "", "not the root"),
        ("hdfs://one:8020/", "", "not the root"),
        ("hdfs://one:8020/a//b", "", "not the root"),
        ("hdfs://one:8020/a/../b", "", "not the root"),
        ("hdfs://one:8020/a?x=1", "", "not the root"),
        ("hdfs://one:8020/a#b", "", "not the root"),
    ],
)
def test_what_is_no_hdfs_is_refused_with_what_to_write(
    url: str, endpoint: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason):
        TierConfig(url=url, endpoint=endpoint)


def test_a_user_is_for_hdfs_alone() -> None:
    with pytest.raises(ConfigError, match=r"tier\.user is for hdfs"):
        TierConfig(url="file:///mnt/shared", user="keeper")


@pytest.mark.parametrize("name", ["endpoint", "access_key_id", "secret_key_file"])
def test_a_bucket_needs_who_asks_whom(name: str) -> None:
    with pytest.raises(ConfigError, match=f"tier.{name} is missing"):
        TierConfig(**{**S3, name: ""})


@pytest.mark.parametrize("name", ["access_key_id", "secret_key_file"])
def test_a_container_needs_an_account_and_its_key(name: str) -> None:
    with pytest.raises(ConfigError, match=f"a container of Azure: tier.{name} is missing"):
        TierConfig(**{**AZURE, name: ""})


def test_objects_stay_for_longer_than_readers_use_what_they_know() -> None:
    with pytest.raises(ConfigError, match="for longer"):
        TierConfig(lease_ms=5_000, grace_ms=5_000)


def test_a_node_without_a_second_level_can_not_copy() -> None:
    place = "tier.url=file:///mnt/shared"
    with pytest.raises(ConfigError, match=r"log\.level0_ms or log\.level0_bytes"):
        load_settings(None, environment={}, overrides=[place])
    settings = load_settings(None, environment={}, overrides=[place, "log.level0_bytes=1000000"])
    assert settings.tier.times().upload_ms == settings.tier.upload_ms


def test_nothing_is_merged_where_an_object_would_have_no_bytes() -> None:
    assert TierConfig(merge_bytes=0).merge_rules() is None
    rules = TierConfig(merge_bytes=1000, merge_ms=5_000, merge_runs=3).merge_rules()
    assert rules == MergeRules(1000, 5_000, 3)


def test_a_merge_is_not_larger_than_its_rate_permits_in_half_of_its_time() -> None:
    """Read and written: 4 MiB in 8 s."""
    config = TierConfig(upload_ms=16_000, merge_bytes_per_second=1 << 20)
    rules = config.merge_rules()
    assert rules is not None
    assert rules.object_bytes == 4 << 20
