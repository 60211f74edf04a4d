"""A slave reads history from a real S3 server, also one that stands still for a while."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from harness import s3_server
from harness.s3_server import S3Server
from harness.waiting import UNTIL_SECONDS, wait_until
from tests.integration.test_housekeeper import metric
from tests.integration.test_tier import settings as tier_settings
from tests.integration.test_tier_s3_reads import go_on, stand_still
from tests.integration.test_tier_slave_reads import FIRST, Racked, Reader, freed, reads_of

pytestmark = [pytest.mark.process, pytest.mark.compat]


class Distant(Racked):
    """Three nodes over a server instead of a directory."""

    def __init__(self, directory: Path, server: S3Server) -> None:
        self._secret = directory / "secret"
        self._secret.write_text(f"{s3_server.SECRET}\n")
        self._server = server
        super().__init__(directory)

    def settings_of(self, peer_id: int) -> dict[str, dict[str, object]]:
        own = tier_settings(
            "s3://tier/of/three",
            endpoint=self._server.endpoint,
            region=s3_server.REGION,
            access_key_id=s3_server.ACCESS,
            secret_key_file=str(self._secret),
            read_ms=2_000,
        )
        own["broker"]["slave_reads"] = "rack"
        own["node"] = {"rack": f"r{peer_id}"}
        return own


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    program = s3_server.binary()
    if isinstance(program, str):
        pytest.skip(program)
    with S3Server(program, tmp_path / "s3") as server:
        yield server


@pytest.fixture
def copied(server: S3Server, tmp_path: Path) -> Iterator[Distant]:
    made = Distant(tmp_path, server)
    yield made
    for node in made.layout.nodes.values():
        node.kill()


def test_it_goes_on_where_it_was_when_the_server_does(server: S3Server, copied: Distant) -> None:
    _, slave = freed(copied)
    with closing(Reader(copied, slave)) as reader:
        reader.take(FIRST)
        assert reads_of(copied, slave) > 0
        node = copied.layout.nodes[slave]
        stand_still(server)
        try:
            assert wait_until(lambda: reader.is_kept_waiting(node), UNTIL_SECONDS)
            assert not reader.refusals
        finally:
            go_on(server)
        reader.take(len(copied.values))
    assert reader.got == list(range(len(copied.values)))
    assert metric(node, "penstock_tier_read_failures_total") > 0
