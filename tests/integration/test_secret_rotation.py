"""The secret and the certificates of peers are replaced on a cluster that is at work."""

import re
import secrets
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from harness.cluster import get_page
from harness.node import NodeProcess
from harness.waiting import wait_until
from harness.workload import Load, Workload
from tests.integration.certificates import Authority, why_no_openssl
from tests.integration.layouts import SMALL, WAIT_SECONDS, Layout, run_penstock

pytestmark = [
    pytest.mark.process,
    pytest.mark.long,
    pytest.mark.skipif(why_no_openssl() is not None, reason=str(why_no_openssl())),
]

NODES = (1, 2, 3)
LOAD = Load(topic="history", partitions=3, producers=2, records_per_second=300)
PEM = ("tls_certificate_file", "tls_key_file", "tls_authority_file")


class Secrets:
    """The files of one node, as its machine would have them."""

    def __init__(self, directory: Path, issued: dict[str, object], secret: str) -> None:
        directory.mkdir()
        self._paths = {name: directory / f"{name}.pem" for name in PEM}
        self.secret = directory / "secret"
        self.write(self.secret, secret)
        self.use(issued)
        self.trust(Path(str(issued[PEM[2]])))

    @property
    def settings(self) -> dict[str, dict[str, object]]:
        files = {name: str(path) for name, path in self._paths.items()}
        return {"cluster": {**files, "secret_file": str(self.secret)}}

    def use(self, issued: dict[str, object]) -> None:
        """Replace certificate and key by others."""
        for name in PEM[:2]:
            shutil.copy(str(issued[name]), self._paths[name])

    def trust(self, *authorities: Path) -> None:
        """Accept certificates of these authorities only."""
        text = "".join(path.read_text() for path in authorities)
        self._paths[PEM[2]].write_text(text)

    @staticmethod
    def write(path: Path, secret: str) -> None:
        path.touch(0o600)
        path.write_text(secret)


def test_secret_and_certificates_are_replaced_under_load_and_the_old_ones_open_nothing(
    tmp_path: Path,
) -> None:
    old, new = secrets.token_hex(32), secrets.token_hex(32)
    first, second = Authority(tmp_path / "first"), Authority(tmp_path / "second")
    files = {
        peer_id: Secrets(tmp_path / f"files-{peer_id}", first.issue(f"node-{peer_id}"), old)
        for peer_id in NODES
    }
    stranger = Secrets(tmp_path / "files-9", first.issue("stranger"), old)
    with Layout(tmp_path / "layout", SMALL) as layout:
        for peer_id, own in files.items():
            layout.add(peer_id, voters=NODES, replicas=3, settings=own.settings).launch()
        for node in layout.nodes.values():
            node.wait_ready()
        nodes = dict(layout.nodes)
        outside = layout.add(9, voters=NODES, settings=stranger.settings)
        assert _status(outside)[0] == 0
        workload = Workload(",".join(f"127.0.0.1:{one.port}" for one in nodes.values()), LOAD)
        workload.start()
        try:
            assert workload.wait_for(300)
            begun = _evictions(nodes)
            _replace_secret(nodes, files, new)
            assert workload.wait_for(workload.acked + 300)
            assert _evictions(nodes) == begun, "a node was taken for dead"
            code, printed = _status(outside)
            assert (code, "wrong secret" in printed) == (1, True), printed
            Secrets.write(stranger.secret, new)
            assert _status(outside)[0] == 0
            _replace_certificates(nodes, files, first, second)
            assert workload.wait_for(workload.acked + 300)
            code, printed = _status(outside)
            assert (code, "certificate" in printed) == (1, True), printed
            for node in nodes.values():
                assert _has_links_by_others(node)
            for node in nodes.values():
                assert node.stop() == 0  # it makes all its links anew
                node.start()
                for set_id in NODES:
                    layout.wait_in_step(set_id, list(NODES), via=1)
            for node in nodes.values():
                assert not _has_links_by_others(node)
        finally:
            report = workload.finish()
        assert workload.fatal_errors == []
        assert report.is_clean(), report.findings[:3]
        for node in nodes.values():
            log = node.log_file.read_text()
            assert "Traceback" not in log
            assert old not in log
            assert new not in log


def _replace_secret(nodes: dict[int, NodeProcess], files: dict[int, Secrets], new: str) -> None:
    """As docs/operations/cluster.md says it."""
    for own in files.values():
        Secrets.write(own.secret.with_name("secret.next"), new)
    for node in nodes.values():
        assert wait_until(partial(_is, node, "penstock_peer_secrets", 2), WAIT_SECONDS)
    for own in files.values():
        shutil.copy2(own.secret, own.secret.with_name("secret.old"))
        own.secret.with_name("secret.next").rename(own.secret)
    for node in nodes.values():
        assert wait_until(partial(_has_links_by_others, node), WAIT_SECONDS)
    for peer_id, node in nodes.items():
        files[peer_id].secret.with_name("secret.old").unlink()
        assert wait_until(partial(_is, node, "penstock_peer_secrets", 1), WAIT_SECONDS)


def _replace_certificates(
    nodes: dict[int, NodeProcess],
    files: dict[int, Secrets],
    first: Authority,
    second: Authority,
) -> None:
    authorities = (first.certificate, second.certificate)
    _each(nodes, lambda peer_id: files[peer_id].trust(*authorities))
    _each(nodes, lambda peer_id: files[peer_id].use(second.issue(f"node-{peer_id}")))
    _each(nodes, lambda peer_id: files[peer_id].trust(second.certificate))


def _each(nodes: dict[int, NodeProcess], change: Callable[[int], None]) -> None:
    """Change the files of every node, and wait until each has read them again."""
    for peer_id, node in nodes.items():
        before = _reads(node)
        change(peer_id)
        assert wait_until(partial(_reads_more_than, before, node), WAIT_SECONDS)


def _reads(node: NodeProcess) -> int:
    return node.log_file.read_text().count("credentials for peers: read again")


def _evictions(nodes: dict[int, NodeProcess]) -> set[str]:
    """The counts of masterships that moved since a node was taken for dead."""
    pages = [(get_page(node, "/metrics") or b"").decode() for node in nodes.values()]
    return set(
        re.findall(r"^penstock_elections_total.*eviction.*$", "\n".join(pages), re.MULTILINE)
    )


def _reads_more_than(count: int, node: NodeProcess) -> bool:
    return _reads(node) > count


def _has_links_by_others(node: NodeProcess) -> bool:
    return not _is(node, "penstock_peer_links_by_other_secrets", 0)


def _is(node: NodeProcess, metric: str, wanted: int) -> bool:
    found = re.search(
        rf"^{metric} (\S+)$", (get_page(node, "/metrics") or b"").decode(), re.MULTILINE
    )
    return found is not None and float(found[1]) == wanted


def _status(node: NodeProcess) -> tuple[int, str]:
    return run_penstock("cluster", "status", "--config", str(node.config))
