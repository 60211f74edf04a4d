"""The files of `penstock up --secure`, and what a node's settings have to be with them."""

import asyncio
import base64
import os
import shlex
import stat
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.ports import UP_PORTS, free_port
from penstock.base.errors import ConfigError
from penstock.cli.launch import launcher
from penstock.cli.launch.node_files import write_private
from penstock.cli.launch.probe import Login, LoginRefused, brokers_seen
from penstock.cli.launch.secured import Secured, secured
from penstock.node.access.users import access_keys
from penstock.node.settings.settings import NodeSettings, load_settings


def made(directory: Path) -> Secured:
    directory.mkdir(exist_ok=True)
    files = secured(directory, is_wanted=True)
    assert files is not None
    return files


@pytest.fixture
def files(tmp_path: Path) -> Secured:
    return made(tmp_path)


def test_files_are_made_once_for_their_owner_alone(tmp_path: Path, files: Secured) -> None:
    assert stat.S_IMODE(files.directory.stat().st_mode) == 0o700
    before = {path: path.read_bytes() for path in files.directory.iterdir()}
    assert {stat.S_IMODE(path.stat().st_mode) for path in before} == {0o600}
    assert made(tmp_path) == files
    assert {path: path.read_bytes() for path in files.directory.iterdir()} == before
    assert len(files.password()) == 32
    assert files.password() != made(tmp_path / "other").password()


def test_a_private_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        write_private(tmp_path / "secret", "text")
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]


def test_what_is_closed_is_not_started_open(tmp_path: Path, files: Secured) -> None:
    with pytest.raises(ConfigError, match="was closed with --secure: give it again"):
        secured(tmp_path, is_wanted=False)
    assert secured(tmp_path / "other", is_wanted=False) is None


def test_the_line_of_readiness_is_read_as_a_shell_does(tmp_path: Path) -> None:
    files = made(tmp_path / "a b")
    assert shlex.split(files.told()) == [
        f"ca={files.directory}/authority.pem",
        "user=admin",
        f"password-file={files.directory}/admin.password",
    ]


def prepared(
    directory: Path, *overrides: str, environment: dict[str, str] | None = None
) -> NodeSettings:
    """Return the settings of the first node, as its launcher writes them."""
    plan = launcher.Plan(
        directory=directory,
        nodes=1,
        port=free_port(UP_PORTS),
        metrics_port=0,
        restart=True,
        overrides=overrides,
        secure=True,
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        _, _, settings = launcher._prepare(plan, 0, made(directory))
    return settings


def test_a_node_is_closed_by_its_settings(tmp_path: Path) -> None:
    settings = prepared(tmp_path)
    assert settings == load_settings(tmp_path / "node-1" / "node.toml", environment={})
    assert settings.security.protocols() == {"kafka": "SASL_SSL"}
    assert settings.security.sasl_enabled_mechanisms == ("SCRAM-SHA-512",)
    assert settings.access.authorizer == "acl"
    assert settings.access.super_users == ("User:admin",)
    assert not settings.access.allow_everyone_if_no_acl_found


@pytest.mark.parametrize("name", ["remoting", "grpc"])
def test_the_port_for_rocketmq_s_clients_is_closed_as_well(tmp_path: Path, name: str) -> None:
    port = f"{name}.port={free_port()}"
    settings = prepared(tmp_path, port)
    assert settings.security.protocols() == {"kafka": "SASL_SSL", name: "SASL_SSL"}
    path = Path(settings.security.remoting_access_keys_file)
    assert path == tmp_path.absolute() / "security" / "access-keys"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(access_keys(str(path))) == ["admin"]
    first = path.read_bytes()
    prepared(tmp_path, port)
    assert path.read_bytes() == first
    assert made(tmp_path).password() not in first.decode(), "a secret of its own"
    for protocol, why in (
        ("SSL", f"{name} lets in everybody"),
        ("SASL_PLAINTEXT", r"--secure and .* contradict each other"),
    ):
        opened = f"security.listener_security_protocol_map=kafka:SASL_SSL,{name}:{protocol}"
        with pytest.raises(ConfigError, match=why):
            prepared(tmp_path, port, opened)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        prepared(tmp_path, port)


def test_without_a_port_for_rocketmq_s_clients_there_is_no_access_key(tmp_path: Path) -> None:
    ports = "remoting.port=0", f"grpc.port={free_port()}", "grpc.port=0"
    assert prepared(tmp_path, *ports).security.protocols() == {"kafka": "SASL_SSL"}
    assert not made(tmp_path).access_keys_file.exists()


def test_a_node_keeps_its_certificate_until_it_has_another_name(tmp_path: Path) -> None:
    path = Path(prepared(tmp_path).security.ssl_certificate_file)
    first = path.read_bytes()
    prepared(tmp_path)
    assert path.read_bytes() == first
    prepared(tmp_path, "node.advertised_host=log.example.net")
    assert path.read_bytes() != first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("security.listener_security_protocol_map", "kafka:SSL"),
        ("security.listener_security_protocol_map", "kafka:SASL_PLAINTEXT"),
        ("security.sasl_enabled_mechanisms", "SCRAM-SHA-256"),
        ("security.listeners", "kafka.sasl_enabled_mechanisms=SCRAM-SHA-256"),
        ("access.authorizer", "off"),
        ("access.super_users", "User:other"),
        ("access.allow_everyone_if_no_acl_found", "true"),
    ],
)
def test_settings_that_open_it_are_refused(tmp_path: Path, setting: str, value: str) -> None:
    with pytest.raises(ConfigError, match=r"--secure and .* contradict each other"):
        prepared(tmp_path, f"{setting}={value}")
    name = "PENSTOCK__" + setting.upper().replace(".", "__")
    with pytest.raises(ConfigError, match=r"--secure and .* contradict each other"):
        prepared(tmp_path, environment={name: value})


# --- how the launcher comes in -----------------------------------------------------------------


class Fake:
    """A server that lets everybody in and knows no passwords; it answers `last` in the end."""

    def __init__(self, last: bytes) -> None:
        self._last = last
        self.seen: list[int] = []
        self.is_over = asyncio.Event()

    def answers(self, request: bytes) -> Iterator[bytes]:
        """Yield the answers to what a client sends."""
        key = struct.unpack_from(">h", request)[0]
        self.seen.append(key)
        if key in {17, 18}:
            yield struct.pack(">ihi", 1, 0, 0)
        elif key == 36:
            nonce = request.rpartition(b",r=")[2]
            salt = base64.b64encode(bytes(24))
            is_first = b"n,,n=" in request
            token = b"r=%sx,s=%s,i=4096" % (nonce, salt) if is_first else self._last
            yield struct.pack(">ihhi", 1, 0, -1, len(token)) + token
        else:
            yield struct.pack(">iii", 1, 1, 7) + struct.pack(">h1sih", 1, b"h", 9092, -1)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                for answer in self.answers(await reader.readexactly(length)):
                    writer.write(struct.pack(">i", len(answer)) + answer)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()
            await writer.wait_closed()
            self.is_over.set()


async def seen_of(fake: Fake, login: Login | None) -> set[int]:
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    async with server:
        try:
            return await brokers_seen("127.0.0.1", server.sockets[0].getsockname()[1], login)
        finally:
            await fake.is_over.wait()


LOGIN = Login(  # what is proved inside TLS does not depend on it
    context=None,  # type: ignore[arg-type]
    mechanism="SCRAM-SHA-512",
    user="admin",
    password="secret",
)


def test_a_server_that_does_not_know_the_password_is_not_taken_for_a_node() -> None:
    fake = Fake(b"v=" + base64.b64encode(bytes(64)))
    with pytest.raises(LoginRefused):
        asyncio.run(seen_of(fake, LOGIN))
    assert fake.seen == [18, 17, 36, 36]  # and it is not asked any more


@pytest.mark.parametrize("last", [b"", b"e=other-error", b"v="])
def test_nor_is_one_that_proves_nothing(last: bytes) -> None:
    with pytest.raises(LoginRefused):
        asyncio.run(seen_of(Fake(last), LOGIN))


def test_without_a_login_nothing_is_proved() -> None:
    fake = Fake(b"")
    assert asyncio.run(seen_of(fake, None)) == {7}
    assert fake.seen == [18, 3]
