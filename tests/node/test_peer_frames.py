"""How large a frame the ports for peers take: what is sent there, and little more."""

from pathlib import Path

from harness.ports import free_port
from penstock.controller.metadata.record_codec import ENTRY_BYTES_MAX
from penstock.coordinator.calls.asking import FRAME_BYTES_MAX as CALL_FRAME_BYTES_MAX
from penstock.net.peer import Credentials, PeerHello, PeerSecurity, dial
from penstock.replication.wire import EPOCHS_MAX
from tests.live_node import running_node
from tests.net.serving import run

SECRET = "0123456789abcdef"


def test_each_port_takes_the_largest_message_that_is_sent_there(tmp_path: Path) -> None:
    secret, data = tmp_path / "secret", tmp_path / "data"
    data.mkdir()
    secret.write_text(SECRET)
    secret.chmod(0o600)
    controller_port, ha_port = free_port(), free_port()

    async def taken(port: int, purpose: bytes) -> int:
        link = await dial(
            ("127.0.0.1", port),
            PeerHello(purpose, "", 2, 1),
            PeerSecurity(Credentials(SECRET.encode())),
            timeout_ms=5_000,
            frame_bytes_max=1 << 20,
        )
        link.close("seen")
        return link.frame_bytes_max

    async def scenario() -> None:
        assert await taken(controller_port, b"session") == ENTRY_BYTES_MAX + (1 << 20)
        assert 12 * EPOCHS_MAX < await taken(ha_port, b"ha") < 1 << 20
        assert CALL_FRAME_BYTES_MAX <= await taken(ha_port, b"call") < 1 << 20

    with running_node(
        data,
        f"cluster.secret_file={secret}",
        f"cluster.controller_port={controller_port}",
        f"cluster.voters=1@127.0.0.1:{controller_port}",
        f"cluster.ha_port={ha_port}",
    ):
        run(scenario())
