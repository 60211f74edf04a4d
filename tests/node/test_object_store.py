"""The store that settings name is the one that is opened, and nobody pays for another one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client.tier import StorePlace
from penstock.node.object_store import open_store
from penstock.runtime.io.hdfs_store import USER_VARIABLE, HdfsStore
from penstock.runtime.io.object_store import DirectoryStore
from penstock.spark.tier.options import TierOptions
from penstock.spark.tier.store import open_store as open_for_spark
from penstock.tier.config import TierConfig

LOADED = """
import sys
import penstock.node.machine
libraries = {"hdfs_native", "hdfs_store", "obstore"}
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
