from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from penstock.base.errors import ConfigError
from penstock.base.ids import PeerId
from penstock.node.settings.cluster_config import ClusterConfig, VoterAddress
from penstock.node.settings.settings import load_settings


def test_voters_are_read_in_their_order() -> None:
    config = ClusterConfig(voters=("3@c.example:9093", "1@10.0.0.1:9093", "2@[::1]:19093"))
    assert config.voter_addresses() == (
        VoterAddress(PeerId(3), "c.example", 9093),
        VoterAddress(PeerId(1), "10.0.0.1", 9093),
        VoterAddress(PeerId(2), "::1", 19093),
    )
    assert config.voter_addresses()[0].address == "c.example:9093"


def test_without_voters_a_node_is_alone() -> None:
    assert ClusterConfig().voter_addresses() == ()
    assert ClusterConfig().read_secrets() == ()


@pytest.mark.parametrize(
    "voter",
    [
        *("", "1", "1@", "1@host", "1@host:", "1@:9093", "host:9093", "@host:9093", "x@host:9093"),
        *("1@host:x", "1@host:65536", "-1@host:9093", "2147483648@host:9093", "1@host:9093 "),
    ],
)
def test_what_is_no_voter_is_refused_with_an_example(voter: str) -> None:
    with pytest.raises(ConfigError, match=r"is no controller: write id@host:port, as in 1@"):
        ClusterConfig(voters=(voter,))


def test_an_id_that_stands_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names an id twice"):
        ClusterConfig(voters=("1@a:9093", "1@b:9093"))


@pytest.mark.parametrize("port", ["controller_port", "ha_port"])
def test_an_open_port_needs_a_secret(port: str) -> None:
    with pytest.raises(ConfigError, match=r"cluster\.secret_file is not given: name a file"):
        ClusterConfig(**cast("dict[str, Any]", {port: 9093}))


@pytest.mark.parametrize("left_out", ["certificate", "key", "authority"])
def test_tls_needs_all_three_files(left_out: str) -> None:
    files: dict[str, Any] = {
        f"tls_{name}_file": "x" for name in ("certificate", "key", "authority")
    }
    assert ClusterConfig(**files).tls_key_file == "x"
    del files[f"tls_{left_out}_file"]
    with pytest.raises(ConfigError, match="give all three or none"):
        ClusterConfig(**files)


def test_space_around_a_secret_does_not_count(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b" 0123456789abcdef\n")
    file.chmod(0o600)
    assert ClusterConfig(secret_file=str(file)).read_secrets() == (b"0123456789abcdef",)


@pytest.mark.parametrize(
    ("content", "length"), [(b"", 0), (b"0123456789abcde\n", 15), (bytes([65]) * 5000, 4097)]
)
def test_a_secret_of_another_length_is_refused(tmp_path: Path, content: bytes, length: int) -> None:
    file = tmp_path / "secret"
    file.write_bytes(content)
    file.chmod(0o600)
    with pytest.raises(ConfigError, match=f"holds {length} bytes: a secret has 16 to 4096"):
        ClusterConfig(secret_file=str(file)).read_secrets()


def test_a_secret_that_can_not_be_read_is_refused(tmp_path: Path) -> None:
    config = ClusterConfig(secret_file=str(tmp_path / "absent"))
    with pytest.raises(ConfigError, match="absent does not exist: make it once"):
        config.read_secrets()
    with pytest.raises(ConfigError, match="can not be read: Is a directory"):
        replace(config, secret_file=str(tmp_path)).read_secrets()


def test_files_of_the_cluster_section_start_at_the_settings_file(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('[cluster]\nsecret_file = "secret"\nvoters = ["1@h:1"]\n')
    assert load_settings(path, environment={}).cluster.secret_file == str(tmp_path / "secret")


def test_a_wrong_voter_in_a_file_is_one_line_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text('[cluster]\nvoters = ["one"]\n')
    with pytest.raises(ConfigError) as raised:
        load_settings(path, environment={})
    (line,) = str(raised.value).splitlines()
    assert "'one' is no controller" in line


def test_a_secret_that_everybody_can_read_is_refused(tmp_path):
    path = tmp_path / "secret"
    path.write_text("0123456789abcdef\n")
    config = ClusterConfig(secret_file=str(path))
    path.chmod(0o644)
    with pytest.raises(ConfigError, match=r"can be read or written by everybody .*: chmod 600"):
        config.read_secrets()
    path.chmod(0o640)
    assert config.read_secrets() == (b"0123456789abcdef",)
