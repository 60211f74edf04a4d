"""The store that settings name is the one that is opened, and nobody pays for another one."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.client.tier import StorePlace
from penstock.node.object_store import open_store
from penstock.runtime.io.azure_store import AzureContainer
from penstock.runtime.io.hdfs_store import USER_VARIABLE, HdfsStore
from penstock.runtime.io.object_store import DirectoryStore
from penstock.spark.tier.options import TierOptions
from penstock.spark.tier.store import OF_AZURE
from penstock.spark.tier.store import open_store as open_for_spark
from penstock.tier.config import TierConfig

KEY = "a2V5"
LOADED = """
import sys
import penstock.node.machine
libraries = {"azure_store", "hdfs_native", "hdfs_store", "obstore"}
print([one for one in sys.modules if one.split(".")[-1] in libraries])
"""


def test_a_directory_is_opened(tmp_path: Path) -> None:
    assert isinstance(open_store(TierConfig(url=f"file://{tmp_path}/x")), DirectoryStore)


def test_an_hdfs_is_opened_at_its_directory_as_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(USER_VARIABLE, "somebody")
    config = TierConfig(url="hdfs://name/a/b", endpoint="one:8020,two:8020", user="keeper")
    store = open_store(config)
    assert isinstance(store, HdfsStore)
    assert store._path("x/y") == "/a/b/x/y"
    assert store._name_nodes == ("one:8020", "two:8020")
    assert os.environ[USER_VARIABLE] == "keeper"


def azure(tmp_path: Path, **more: str) -> TierConfig:
    key = tmp_path / "key"
    key.write_text(f"{KEY}\n")
    told = {"access_key_id": "somebody", "secret_key_file": str(key), **more}
    return TierConfig(url="az://container/a/b", **told)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [("", "https://somebody.blob.core.windows.net"), ("http://one:1/who", "http://one:1/who")],
)
def test_a_container_of_azure_is_opened_where_the_account_is(
    tmp_path: Path, endpoint: str, expected: str
) -> None:
    store = open_store(azure(tmp_path, endpoint=endpoint))
    assert isinstance(store, AzureContainer)
    library: Any = store._library
    assert (library.prefix, library.config["container_name"]) == ("a/b", "container")
    assert library.config["endpoint"].rstrip("/") == expected
    assert library.config["account_key"] == KEY


def test_a_key_that_is_none_of_azure_is_refused_and_not_shown(tmp_path: Path) -> None:
    config = azure(tmp_path)
    Path(config.secret_key_file).write_text("no base64!")
    with pytest.raises(ConfigError, match="copy it from the account's access keys") as caught:
        open_store(config)
    assert "no base64!" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["blob", "ftp://one", "http://", "https://a b"])
def test_an_endpoint_that_is_none_is_refused(tmp_path: Path, endpoint: str) -> None:
    with pytest.raises(ConfigError, match="Azure"):
        open_store(azure(tmp_path, endpoint=endpoint))


def test_spark_opens_the_container_that_it_is_told_of_by_its_own_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = StorePlace("az://container/a", "", "")
    for name in OF_AZURE:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="set AZURE_STORAGE_ACCOUNT_NAME and"):
        open_for_spark(told, TierOptions())
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "reader")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", KEY)
    store = open_for_spark(told, TierOptions())
    assert isinstance(store, AzureContainer)
    library: Any = store._library
    assert library.config["account_name"] == "reader"
    assert library.config["account_key"] == KEY


def test_spark_opens_the_hdfs_that_it_is_told_of_or_that_its_options_name() -> None:
    told = StorePlace("hdfs://name/a", "one:8020", "")
    store = open_for_spark(told, TierOptions())
    assert isinstance(store, HdfsStore)
    assert (store._name_nodes, store._path("x")) == (("one:8020",), "/a/x")
    store = open_for_spark(told, TierOptions(endpoint="two:8020"))
    assert isinstance(store, HdfsStore)
    assert store._name_nodes == ("two:8020",)


def test_a_node_loads_no_library_of_stores_before_it_opens_one() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
