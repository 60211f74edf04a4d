"""Places and secrets that can not be used, as commands say it that need no cluster for that."""

import pytest

from penstock.cli.exit_codes import EXIT_FAILED, EXIT_USAGE
from penstock.cli.program import guarded

SECRET = "not-to-be-shown-anywhere"
BUCKET = (
    *("archive", "ls", "s3://bucket/prefix", "--store", "endpoint=http://127.0.0.1:1"),
    *("--store", "access-key-id=me", "--store"),
)


@pytest.fixture
def said(capsys):
    """Run a command, and return its exit code and its one line."""

    def run(*words):
        code = guarded([str(word) for word in words])
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("penstock: ")
        assert captured.err.count("\n") == 1
        assert SECRET not in captured.err
        return code, captured.err.removeprefix("penstock: ").rstrip("\n")

    return run


@pytest.mark.parametrize(
    "command", [("archive", "ls"), ("archive", "verify"), ("archive", "prune")]
)
def test_a_place_without_an_archive_is_named_with_what_makes_one(said, tmp_path, command):
    told = f"{tmp_path} holds no archive: penstock archive run TOPIC --to {tmp_path} makes it"
    assert said(*command, tmp_path) == (EXIT_FAILED, told)


def test_a_replay_names_the_place_that_holds_no_archive(said, tmp_path):
    code, text = said("replay", tmp_path, "--to-topic", "a", "--bootstrap", "127.0.0.1:1")
    assert code == EXIT_FAILED
    assert text.startswith(f"{tmp_path} holds no archive: ")


def test_an_archive_where_no_directory_can_be_made_is_refused_by_its_name(said, tmp_path):
    (tmp_path / "file").touch()
    place = tmp_path / "file" / "archive"
    code, text = said("archive", "run", "a", "--to", place, "--bootstrap", "127.0.0.1:1")
    assert code == EXIT_USAGE
    assert text.startswith(f"{place} can not be made a directory: ")


@pytest.mark.parametrize("command", [("doctor",), ("up",), ("cluster", "status")])
def test_a_file_in_the_place_of_a_data_directory_is_refused(said, tmp_path, command):
    (tmp_path / "file").touch()
    code, text = said(*command, "--data", tmp_path / "file")
    assert code == EXIT_USAGE
    assert f"'--data': {tmp_path / 'file'} is no directory (see penstock " in text


def secrets(tmp_path):
    """Yield (option's value, words) of secrets that can not be used."""
    absent, shown, odd = (tmp_path / name for name in ("absent", "shown", "odd"))
    shown.write_text(SECRET)
    shown.chmod(0o644)
    odd.touch(0o600)
    odd.write_bytes(b"\xff\xfe")
    yield absent, "can not be read: No such file or directory"
    yield tmp_path, "can not be read: Is a directory"
    yield shown, f"can be read or written by everybody on this machine: chmod 600 {shown}"
    yield odd, "is not UTF-8 text"


def test_a_password_file_that_can_not_be_used_is_refused(said, tmp_path):
    for path, words in secrets(tmp_path):
        told = said("user", "add", "reader", "--password-file", path, "--bootstrap", "127.0.0.1:1")
        assert told == (EXIT_USAGE, f"--password-file {path} {words}")


def test_a_file_with_the_key_of_a_bucket_that_can_not_be_used_is_refused(said, tmp_path):
    for path, words in secrets(tmp_path):
        told = said(*BUCKET, f"secret-key-file={path}")
        assert told == (EXIT_USAGE, f"--store secret-key-file {path} {words}")
