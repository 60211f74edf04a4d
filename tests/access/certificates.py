"""Certificates for tests, made by the openssl command: an authority, servers, clients."""

import subprocess
from pathlib import Path

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(directory: Path, *arguments: str) -> str:
    """Run openssl in a directory; returns what it prints."""
    ran = subprocess.run(
        ["openssl", *arguments], cwd=directory, check=True, capture_output=True, text=True
    )
    return ran.stdout


class Authority:
    """An authority in a directory of its own; `name` tells several in one directory apart."""

    def __init__(self, directory: Path, name: str = "ca") -> None:
        self.directory, self.name = directory, name
        directory.mkdir(exist_ok=True)
        openssl(
            directory, "req", "-x509", *EC, "-days", "2", "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign",  # Python 3.13 wants to know
            "-keyout", f"{name}.key", "-out", f"{name}.pem",
        )  # fmt: skip

    @property
    def file(self) -> str:
        """The authority's certificate."""
        return str(self.directory / f"{self.name}.pem")

    def issue(self, name: str, subject: str, *, days: int = 2) -> tuple[str, str]:
        """Return the files of a certificate for localhost and of its key."""
        openssl(
            self.directory, "req", *EC, "-subj", subject, "-utf8", "-multivalue-rdn",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(
            "subjectAltName=DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
        )
        openssl(
            self.directory, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem",
            "-CAkey", f"{self.name}.key", "-CAcreateserial", "-days", str(days),
            "-extfile", extensions.name, "-out", f"{name}.pem",
        )  # fmt: skip
        key = self.directory / f"{name}.key"
        key.chmod(0o600)
        return str(self.directory / f"{name}.pem"), str(key)
