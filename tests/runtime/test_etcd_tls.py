"""An etcd that asks for client certificates."""

import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.controller.replicated_log import NO_LEADER
from penstock.runtime.etcd import EtcdConfig
from tests.controller.replicated_log_contract import Machine
from tests.integration.etcd_members import Members
from tests.integration.etcd_server import EtcdServer, why_no_etcd

pytestmark = [
    pytest.mark.process,
    pytest.mark.timeout(60),
    pytest.mark.skipif(why_no_etcd() is not None, reason=str(why_no_etcd())),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """An authority and a certificate that it signed, for both ends."""
    new_key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    for line in (
        f"req -x509 {new_key} -keyout authority.key -out authority.pem -subj /CN=authority"
        " -addext keyUsage=critical,keyCertSign",
        f"req {new_key} -keyout peer.key -out peer.csr -subj /CN=peer",
        "x509 -req -in peer.csr -CA authority.pem -CAkey authority.key -CAcreateserial"
        " -extfile names -out peer.pem",
    ):
        command = ["openssl", *line.split()]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    return tmp_path


def test_etcd_with_client_certificates_is_reached_with_one_only(certificates: Path) -> None:
    authority = str(certificates / "authority.pem")
    certificate, key = str(certificates / "peer.pem"), str(certificates / "peer.key")
    flags = ["--cert-file", certificate, "--key-file", key]
    flags += ["--trusted-ca-file", authority, "--client-cert-auth"]
    server = EtcdServer(certificates / "etcd", *flags, is_tls=True)
    with server, Members(certificates) as members:
        members.config = EtcdConfig(
            endpoints=(server.url,),
            lease_ttl_s=2,
            tls_authority_file=authority,
            tls_certificate_file=certificate,
            tls_key_file=key,
        )
        member = members.member(1)
        log = member.start(Machine())
        members.wait(lambda: log.leadership.is_leader)
        assert member.propose(b"a") == [1]
        members.config = EtcdConfig(endpoints=(server.url,), tls_authority_file=authority)
        stranger = members.member(2)
        stranger.start(Machine())
        members.pass_time(0.3)
        assert stranger.log.leadership.leader_id == NO_LEADER
        assert stranger.log.applied_index == 0
