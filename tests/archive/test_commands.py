"""Commands of archives: what they print, and what they say when something is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.base.errors import ConfigError
from penstock.cli import connect
from penstock.cli.archive import commands
from penstock.cli.archive.ages import age_ms, age_text
from penstock.cli.archive.places import opened
from penstock.client.security import ClientSecurity
from penstock.client.settings import ClientSettings
from penstock.record.build import Record
from penstock.runtime.io import object_store
from penstock.runtime.io.object_store import S3Settings, open_directory
from penstock.tier.port import ObjectStore
from tests.archive.world import DAY_MS
from tests.integration.layouts import run_penstock
from tests.spark.topics import NOON_MS, Topics


@pytest.fixture
def archived(topics: Topics, archive: Path) -> tuple[str, str]:
    """A topic, and where its archive is."""
    topic = topics.make(2)
    topics.fill(topic, [b"a", b"b"])
    code, said = run(topics, "archive", "run", topic, "--to", str(archive), "--keep", "5y")
    assert code == 0, said
    return topic, str(archive)


def run(topics: Topics, *command: str) -> tuple[int, str]:
    return run_penstock(*command, "-b", topics.bootstrap)


def told(*command: str) -> Any:
    code, said = run_penstock(*command, "-o", "json")
    assert code == 0, said
    return json.loads(said)


def test_a_run_says_what_it_has_done(topics: Topics, archived: tuple[str, str]) -> None:
    topic, place = archived
    topics.fill(topic, [b"c"], partition=1)
    found = told("archive", "run", topic, "--to", place, "-b", topics.bootstrap)
    assert found == [
        {
            "topic": topic, "records": 1, "chunks": 1, "partitions": 2, "keep": "5y",
            "left_over": 0,
        }
    ]  # fmt: skip


def test_what_an_archive_has_is_listed_by_partition_and_by_file(archived: tuple[str, str]) -> None:
    topic, place = archived
    found = told("archive", "ls", place)
    assert (found["topic"], found["keep"]) == (topic, "5y")
    (only,) = found["partitions"]
    assert (only["partition"], only["start"], only["end"], only["records"]) == (0, 0, 2, 2)
    assert only["oldest"] == "2026-01-01 12:00:00.000+00:00"
    (file,) = told("archive", "ls", place, "--files")
    assert (Path(place) / file["file"]).stat().st_size == file["bytes"]
    assert file["rows"] == 2


def test_verify_names_what_is_damaged_and_fails(archived: tuple[str, str]) -> None:
    _, place = archived
    assert told("archive", "verify", place) == []
    (path,) = Path(place).rglob("*.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    code, said = run_penstock("archive", "verify", place)
    assert code == 1
    assert said.count(path.name) == 2
    assert "bring them back from a copy" in said


def test_prune_says_what_goes(archived: tuple[str, str]) -> None:
    _, place = archived
    for more, left in ((["--dry-run"], 1), ([], 0)):
        (row,) = told("archive", "prune", place, "--keep", "1d", *more)
        assert (row["partition"], row["start"], row["records"]) == (0, 2, 2)
        assert len(list(Path(place).rglob("*.parquet"))) == left
    assert told("archive", "prune", place) == []


def test_a_replay_says_under_which_id_it_goes_on(topics: Topics, archived: tuple[str, str]) -> None:
    _, place = archived
    target = topics.make(1, {"retention.ms": "-1"})
    command = ("replay", place, "--to-topic", target, "-b", topics.bootstrap)
    (first,), (second,) = told(*command), told(*command)
    assert (first["records"], first["transactions"]) == (2, 1)
    assert (second["records"], second["id"]) == (0, first["id"])
    (part,) = told(*command, "--from", "1", "--id", "x")
    assert (part["records"], part["id"]) == (1, "x")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("archive", "ls", "{tmp}/none"), "penstock archive run TOPIC --to"),
        (("archive", "verify", "{tmp}"), "holds no archive: penstock archive run TOPIC --to"),
        (("archive", "prune", "{tmp}"), "holds no archive: penstock archive run TOPIC --to"),
        (("archive", "ls", "{file}"), "is no directory"),
        (("archive", "ls", "gs://x/y"), "write a directory, or s3://"),
        (("archive", "ls", "s3://x/y"), "--store endpoint="),
        (("archive", "ls", "s3:///y", *("--store", "endpoint=http://127.0.0.1:1", "--store",
          "access-key-id=a", "--store", "secret-key-file={file}")), "names no bucket"),
        (("archive", "ls", "{tmp}", "--store", "region=x"), "is for buckets"),
        (("archive", "ls", "s3://x/y", "--store", "color=x"), "one of endpoint"),
        (("archive", "ls", ""), "it is empty"),
        (("archive", "prune", "{tmp}", "--keep", "5"), "such as 5y"),
        (("replay", "{tmp}", "--to-topic", "t", "--from", "yesterday"), "is not a place"),
        (("replay", "{tmp}", "--to-topic", ""), "it is empty"),
        (("replay", "{tmp}", "--to-topic", "t", "--rate", "0"), "0.001"),
    ],
)  # fmt: skip
def test_what_can_not_be_done_says_what_can(
    tmp_path: Path, command: tuple[str, ...], said: str
) -> None:
    (tmp_path / "empty").mkdir()
    file = tmp_path / "file"
    file.write_text("x")
    code, text = run_penstock(*(part.format(tmp=tmp_path / "empty", file=file) for part in command))
    assert code in (1, 2)
    assert said in text
    assert text.count("\n") == 1


def test_a_topic_that_is_not_there_makes_no_archive(topics: Topics, tmp_path: Path) -> None:
    code, said = run(topics, "archive", "run", "none", "--to", str(tmp_path / "made"))
    assert code == 1
    assert "penstock topic list" in said
    code, said = run_penstock("archive", "ls", str(tmp_path / "made"))
    assert code == 1


def test_a_target_that_is_not_there_is_told(topics: Topics, archived: tuple[str, str]) -> None:
    code, said = run(topics, "replay", archived[1], "--to-topic", "none")
    assert code == 1
    assert "penstock topic create none" in said


def test_records_are_read_as_the_user_of_the_client_configuration(
    topics: Topics, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = topics.make()
    asked: list[ClientSecurity] = []
    make = ClientSettings.__post_init__

    def noted(self: ClientSettings) -> None:
        asked.append(self.security)
        make(self)

    monkeypatch.setattr(ClientSettings, "__post_init__", noted)
    other = ClientSecurity(scope="of this test")
    monkeypatch.setattr(connect, "client_security", lambda: other)
    monkeypatch.setattr(commands, "client_security", lambda: other)
    code, said = run(topics, "archive", "run", topic, "--to", str(archive))
    assert code == 0, said
    assert asked
    assert set(asked) == {other}


def test_ages_are_read_and_written_alike() -> None:
    assert age_ms("5y") == 5 * 365 * DAY_MS
    assert age_ms("forever") == 0
    for text in ("1h", "36h", "6d", "2w", "5y", "forever"):
        assert age_text(age_ms(text)) == text
    for text in ("", "5", "0d", "-1d", "1.5y", "5 y", "5m", "1\u0665y", "9999999y"):
        with pytest.raises(ConfigError, match="such as 5y"):
            age_ms(text)


def test_files_that_nobody_names_are_listed_and_do_not_count_as_damaged(
    archived: tuple[str, str],
) -> None:
    _, place = archived
    (path,) = Path(place).rglob("*.parquet")
    path.with_name("other.parquet").write_bytes(b"x")
    path.write_bytes(path.read_bytes()[:-1])
    code, said = run_penstock("archive", "verify", place)
    assert code == 1
    assert "other.parquet" in said
    assert "1 files of the archive" in said


def test_each_file_of_a_chunk_is_listed_with_its_own_rows(topics: Topics, archive: Path) -> None:
    topic = topics.make()
    days = [Record(None, b"x", (), NOON_MS + day * DAY_MS) for day in (0, 0, 1)]
    topics.send(topic, days)
    assert run(topics, "archive", "run", topic, "--to", str(archive))[0] == 0
    found = told("archive", "ls", str(archive), "--files")
    assert sorted(file["rows"] for file in found) == [1, 2]


@pytest.mark.parametrize("path", ["", "/", "/a/b", "/a/b/"])
def test_a_prefix_is_the_same_with_a_slash_at_its_end(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    secret.chmod(0o600)
    seen: list[S3Settings] = []

    def note(settings: S3Settings) -> ObjectStore:
        seen.append(settings)
        return open_directory(tmp_path)

    monkeypatch.setattr(object_store, "open_s3", note)
    keys = ["endpoint=http://e", "access-key-id=k", f"secret-key-file={secret}"]
    with opened(f"s3://bucket{path}", keys, may_be_new=True):
        assert [(one.bucket, one.prefix) for one in seen] == [("bucket", path.strip("/"))]
