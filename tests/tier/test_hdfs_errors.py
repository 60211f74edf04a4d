"""What a NameNode answers, and what it fails to answer, has the right name here."""

import os
import subprocess
import sys

import pytest

from harness.name_node import NameNode, Status
from harness.waiting import UNTIL_SECONDS
from penstock.base.errors import ConfigError
from penstock.runtime.io import hdfs_store
from penstock.runtime.io.hdfs_store import HdfsSettings, HdfsStore, open_hdfs
from penstock.tier.errors import (
    CredentialsRefused,
    ObjectNotFound,
    PreconditionFailed,
    StoreCanNot,
    StoreError,
    StoreThrottled,
    StoreUnavailable,
)
from penstock.tier.hdfs_place import HdfsPlace
from penstock.tier.port import Plain, Version
from tests.tier.store_contract import run
from tests.tier.test_store_errors import CALLS

EVERY = tuple(CALLS)
SAFE = "Cannot create directory /x. Name node is in safe mode."
CASES: list[tuple[str, str, type[StoreError], tuple[str, ...]]] = [
    ("org.apache.hadoop.security.AccessControlException", "denied", CredentialsRefused, EVERY),
    (
        "org.apache.hadoop.security.authorize.AuthorizationException",
        "denied",
        CredentialsRefused,
        EVERY,
    ),
    (
        "org.apache.hadoop.security.token.SecretManager$InvalidToken",
        "expired",
        CredentialsRefused,
        EVERY,
    ),
    ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", SAFE, StoreUnavailable, EVERY),
    ("org.apache.hadoop.ipc.RetriableException", SAFE, StoreUnavailable, EVERY),
    ("org.apache.hadoop.ipc.RetriableException", "Server too busy", StoreThrottled, EVERY),
    ("org.apache.hadoop.ipc.StandbyException", "not active", StoreUnavailable, EVERY),
    (
        "org.apache.hadoop.hdfs.protocol.DSQuotaExceededException",
        "The DiskSpace quota is exceeded",
        StoreUnavailable,
        ("put",),
    ),
    ("java.io.IOException", "it failed", StoreUnavailable, EVERY),
    ("java.io.FileNotFoundException", "none", ObjectNotFound, ("read", "look")),
    ("org.apache.hadoop.fs.FileAlreadyExistsException", "there", PreconditionFailed, ("put",)),
]


def settings_of(address: str, *, call_ms: int = 120_000) -> HdfsSettings:
    return HdfsSettings(place=HdfsPlace((address,), "/x"), call_ms=call_ms)


@pytest.mark.parametrize(
    ("kind", "text", "error", "call"),
    [(*case[:3], call) for case in CASES for call in case[3]],
)
def test_an_error_of_a_name_node_has_the_right_name(
    kind: str, text: str, error: type[StoreError], call: str
) -> None:
    with NameNode(Status.ERROR, kind, f"{text}\n\tat org.apache.Hadoop.java:1") as server:
        with pytest.raises(StoreError) as caught:
            run(CALLS[call](open_hdfs(settings_of(server.address))))
        assert type(caught.value) is error
        assert text in str(caught.value)
        assert ".java:1" not in str(caught.value)
        assert 1 <= server.call_count <= 4


@pytest.mark.parametrize("call", EVERY)
@pytest.mark.parametrize("status", [Status.CLOSED, Status.FATAL])
def test_a_connection_that_a_name_node_ends_may_be_for_want_of_kerberos(
    status: Status, call: str
) -> None:
    with (
        NameNode(status, "org.apache.hadoop.security.AccessControlException", "x") as server,
        pytest.raises(StoreUnavailable, match="Kerberos, which is not supported"),
    ):
        run(CALLS[call](open_hdfs(settings_of(server.address))))


@pytest.mark.parametrize("call", EVERY)
def test_a_name_node_that_does_not_answer_is_waited_for_as_long_as_the_limit(call: str) -> None:
    with (
        NameNode(Status.SILENT) as server,
        pytest.raises(StoreUnavailable, match="no answer within 100 ms"),
    ):
        run(CALLS[call](open_hdfs(settings_of(server.address, call_ms=100))))


@pytest.mark.parametrize("call", EVERY)
def test_a_name_node_that_is_not_there_is_told_and_no_panic_of_the_library(
    call: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(StoreUnavailable, match="refused"):
        run(CALLS[call](open_hdfs(settings_of("127.0.0.1:1"))))
    assert "panicked" not in capfd.readouterr().err


def test_behind_a_silent_name_node_the_next_request_begins_with_another() -> None:
    with (
        NameNode(Status.SILENT) as silent,
        NameNode(Status.ERROR, "java.io.IOException", "the other") as other,
    ):
        place = HdfsPlace((silent.address, other.address), "/x")
        store = open_hdfs(HdfsSettings(place=place, call_ms=1_000))
        with pytest.raises(StoreUnavailable, match="no answer within"):
            run(store.look("a/one"))
        store = open_hdfs(HdfsSettings(place=store_place(store), call_ms=120_000))
        with pytest.raises(StoreUnavailable, match="the other"):
            run(store.look("a/one"))
        assert silent.call_count == 1


def store_place(store: HdfsStore) -> HdfsPlace:
    """Return the place of a store, with its NameNodes as it asks them now."""
    return HdfsPlace(store._name_nodes, store._directory)


def test_behind_a_standby_name_node_another_is_asked_by_the_same_request() -> None:
    with (
        NameNode(Status.ERROR, "org.apache.hadoop.ipc.StandbyException", "not active") as first,
        NameNode(Status.ERROR, "java.io.IOException", "the active one") as active,
    ):
        place = HdfsPlace((first.address, active.address), "/x")
        with pytest.raises(StoreUnavailable, match="the active one"):
            run(open_hdfs(HdfsSettings(place=place, call_ms=120_000)).look("a/one"))


def test_stores_of_one_place_and_user_share_a_client_and_others_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """None is dropped: that may stop the process."""
    monkeypatch.setenv(hdfs_store.USER_VARIABLE, "one")
    first = open_hdfs(settings_of("127.0.0.1:1"))._opened()
    assert open_hdfs(settings_of("127.0.0.1:1"))._opened() is first
    assert open_hdfs(settings_of("127.0.0.1:2"))._opened() is not first
    monkeypatch.setenv(hdfs_store.USER_VARIABLE, "two")
    assert open_hdfs(settings_of("127.0.0.1:1"))._opened() is not first


def test_names_that_are_gone_are_no_error_whoever_says_so() -> None:
    with NameNode(Status.ERROR, "java.io.FileNotFoundException", "none") as server:
        run(open_hdfs(settings_of(server.address)).delete(["a/one", "a/two"]))


def test_a_version_is_refused_before_anybody_is_asked() -> None:
    with pytest.raises(StoreCanNot):
        run(open_hdfs(settings_of("127.0.0.1:1")).put("a/one", [b"x"], Version("1-1")))


def test_what_the_library_did_not_expect_is_an_error_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import hdfs_native

    async def fail(*_: object) -> None:
        raise type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})("a bug")

    monkeypatch.setattr(hdfs_native.AsyncClient, "get_file_info", fail)
    with pytest.raises(StoreUnavailable, match="a bug"):
        run(open_hdfs(settings_of("127.0.0.1:1")).look("a/one"))


HANGING = """
import asyncio, sys
from penstock.runtime.io.hdfs_store import HdfsSettings, open_hdfs
from penstock.tier.hdfs_place import HdfsPlace

async def work():
    settings = HdfsSettings(place=HdfsPlace((sys.argv[1],), "/x"), call_ms=120_000)
    put = asyncio.create_task(open_hdfs(settings).put("a/one", [b"x"]))
    await asyncio.sleep(0)
    print("asked", flush=True)
    sys.stdin.readline()
    put.cancel()

asyncio.run(work())
"""


def test_a_process_ends_while_a_name_node_owes_it_an_answer() -> None:
    with NameNode(Status.SILENT) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", HANGING, server.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "asked\n"
        process.communicate("end\n", timeout=UNTIL_SECONDS)
        assert process.returncode == 0


def test_the_user_of_the_settings_is_whom_the_library_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(hdfs_store.USER_VARIABLE, "somebody")
    open_hdfs(settings_of("127.0.0.1:1"))
    assert os.environ[hdfs_store.USER_VARIABLE] == "somebody"
    open_hdfs(HdfsSettings(place=HdfsPlace(("127.0.0.1:1",), "/x"), user="keeper"))
    assert os.environ[hdfs_store.USER_VARIABLE] == "keeper"


def test_a_missing_package_is_said_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_store, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"install penstock\[hdfs\]"):
        open_hdfs(settings_of("127.0.0.1:1"))


def test_a_name_has_no_part_that_ends_as_what_is_being_put() -> None:
    with pytest.raises(AssertionError):
        run(open_hdfs(settings_of("127.0.0.1:1")).put("a.putting/one", [b"x"], Plain.ABSENT))
