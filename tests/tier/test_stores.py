"""The modelled store, a directory and a real S3 server keep one contract."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import s3_server
from harness.s3_server import S3Server
from penstock.runtime.io.object_store import (
    DirectoryStore,
    ObjectStoreByLibrary,
    S3Settings,
    open_directory,
    open_s3,
)
from penstock.tier.errors import (
    CredentialsRefused,
    ObjectNotFound,
    StoreError,
    StoreThrottled,
    StoreUnavailable,
)
from penstock.tier.port import Capabilities, Plain
from penstock.tier.probe import probe, warning_of
from simulator.kernel.object_store import Bucket, Fate, ModelledStore
from tests.tier.store_contract import StoreContract, run


class TestModelledStore(StoreContract):
    """The store of the simulator."""

    @pytest.fixture
    def store(self) -> ModelledStore:
        return ModelledStore(Bucket())


class TestDirectory(StoreContract):
    """Files of the machine."""

    swaps = False

    @pytest.fixture
    def store(self, tmp_path: Path) -> DirectoryStore:
        return open_directory(tmp_path / "tier")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.mark.compat
class TestS3(StoreContract):
    """versitygw; each test has a prefix of its own in the bucket."""

    @pytest.fixture
    def store(self, server: S3Server, request: pytest.FixtureRequest) -> ObjectStoreByLibrary:
        return open_s3(settings_of(server.endpoint, str(abs(hash(request.node.name)))))

    def test_credentials_that_are_wrong_are_told_from_everything_else(
        self, server: S3Server
    ) -> None:
        async def work() -> None:
            settings = settings_of(server.endpoint, "x", secret="wrong")
            with pytest.raises(CredentialsRefused):
                await open_s3(settings).put("a/one", [b"x"], Plain.ABSENT)

        run(work())

    def test_a_bucket_that_is_missing_is_no_missing_object(self, server: S3Server) -> None:
        async def work() -> None:
            store = open_s3(settings_of(server.endpoint, "x", bucket="nobodys"))
            for asking in (
                store.put("a/one", [b"x"]),
                store.read("a/one", 0, 1),
                store.delete(["a/one"]),
            ):
                with pytest.raises(StoreUnavailable):
                    await asking

        run(work())


def settings_of(
    endpoint: str, prefix: str, *, secret: str = s3_server.SECRET, bucket: str = "tier"
) -> S3Settings:
    return S3Settings(
        bucket=bucket,
        endpoint=endpoint,
        region=s3_server.REGION,
        access_key_id=s3_server.ACCESS,
        secret_access_key=secret,
        prefix=prefix,
        request_ms=120_000,
    )


@pytest.mark.parametrize(
    ("fate", "error"),
    [
        (Fate.LOST_ANSWER, StoreUnavailable),
        (Fate.LATE, StoreUnavailable),
        (Fate.FAILED, StoreUnavailable),
        (Fate.THROTTLED, StoreThrottled),
        (Fate.REFUSED, CredentialsRefused),
    ],
)
def test_a_modelled_put_fails_and_is_done_now_or_later_or_never(
    fate: Fate, error: type[StoreError]
) -> None:
    bucket = Bucket()
    store = ModelledStore(bucket, lambda operation, _: fate if operation == "put" else Fate.DONE)

    async def work() -> None:
        with pytest.raises(error):
            await store.put("a", [b"x"], Plain.ABSENT)
        if fate is Fate.LOST_ANSWER:
            assert (await store.look("a")).size_bytes == 1
            return
        with pytest.raises(ObjectNotFound):
            await store.look("a")
        if fate is Fate.LATE:
            await store.delete(["a"])
            bucket.land_late()
            assert (await store.look("a")).size_bytes == 1
        assert not bucket.late

    run(work())


def test_a_late_put_if_absent_does_not_replace_what_came_before_it() -> None:
    bucket = Bucket()
    fates = iter([Fate.LATE, Fate.DONE])
    store = ModelledStore(bucket, lambda operation, _: next(fates))

    async def work() -> None:
        with pytest.raises(StoreUnavailable):
            await store.put("a", [b"slow"], Plain.ABSENT)
        await store.put("a", [b"quick"], Plain.ABSENT)

    run(work())
    bucket.land_late()
    assert bucket.get("a")[0] == b"quick"


@pytest.mark.parametrize(
    ("does", "is_said"),
    [((True, True), False), ((True, False), False), ((False, False), True)],
)
def test_a_store_without_put_if_absent_is_noticed_and_said(
    does: tuple[bool, bool], is_said: bool
) -> None:
    found = run(probe(ModelledStore(Bucket(Capabilities(*does))), "probe"))
    assert found == does
    assert (warning_of(found) is not None) == is_said


def test_deleting_from_a_directory_takes_what_a_dying_put_has_left(tmp_path: Path) -> None:
    store = open_directory(tmp_path)
    (tmp_path / "a").mkdir()
    for name in ("one#1", "one#23", "one#x", "one2#1"):
        (tmp_path / "a" / name).write_bytes(b"half")
    run(store.delete(["a/one"]))
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["one#x", "one2#1"]


def test_a_directory_is_synced_up_to_its_top(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.runtime.io import object_store

    synced: list[Path] = []
    monkeypatch.setattr(object_store, "_sync_one", synced.append)
    run(open_directory(tmp_path).put("a/b/one", [b"x"]))
    names = ["a/b/one", "a/b", "a", "."]
    assert [path.relative_to(tmp_path) for path in synced] == [Path(name) for name in names]


def test_a_directory_does_nothing_any_more_after_a_sync_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file has its name and its size, and may not be on the disk: a look must not say so."""
    from penstock.runtime.io import object_store

    store = open_directory(tmp_path)

    def fail(path: Path) -> None:
        raise OSError(5, "input/output error")

    monkeypatch.setattr(object_store, "_sync_one", fail)
    with pytest.raises(StoreUnavailable):
        run(store.put("a/one", [b"x"]))
    monkeypatch.undo()
    assert (tmp_path / "a/one").exists()
    for asking in (store.look("a/one"), store.delete(["a/one"])):
        with pytest.raises(StoreUnavailable, match="sync"):
            run(asking)
    with pytest.raises(StoreUnavailable, match="sync"):
        run(store.put("a/two", [b"x"]))
