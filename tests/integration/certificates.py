"""Certificates for tests, made by openssl: an authority, and certificates that it signs."""

import shutil
import subprocess
from pathlib import Path


def why_no_openssl() -> str | None:
    """Return why tests with certificates can not run, or None."""
    return None if shutil.which("openssl") else "openssl is missing: sudo apt-get install openssl"


class Authority:
    """An authority of its own in a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.certificate = directory / "authority.pem"
        self._key = directory / "authority.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-days", "2", "-subj", f"/CN={directory.name}"),
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # Python 3.13 wants to know
            *("-keyout", str(self._key), "-out", str(self.certificate)),
        )

    def issue(self, name: str) -> dict[str, object]:
        """Return cluster settings with a new certificate for the loopback address."""
        key, request = self._directory / f"{name}.key", self._directory / f"{name}.csr"
        certificate = self._directory / f"{name}.pem"
        extensions = self._directory / f"{name}.ext"
        extensions.write_text(
            "subjectAltName=IP:127.0.0.1,DNS:localhost\nauthorityKeyIdentifier=keyid\n"
        )
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
            *("-subj", f"/CN={name}", "-keyout", str(key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-days", "2", "-extfile", str(extensions)),
            *("-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial"),
            *("-out", str(certificate)),
        )
        return {
            "tls_certificate_file": str(certificate),
            "tls_key_file": str(key),
            "tls_authority_file": str(self.certificate),
        }


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
