"""Subjects of certificates as text, beside what openssl prints of the same certificate."""

import shutil
import ssl
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.access.errors import MalformedName
from penstock.access.subject import escaped, subject_name
from tests.access.certificates import Authority, openssl

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("names"))


def der(path: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(Path(path).read_text())


@pytest.mark.parametrize(
    "subject",
    [
        "/C=DE/O=Example/OU=Sales, EMEA/CN=reader",
        "/C=DE/ST=Berlin/L=Berlin/street=Main St. 1/O=Example/CN=w",
        "/CN= begins and ends with spaces ",
        "/CN=#begins with a hash, and has # inside",
        '/O=quotes " and \\\\ and <angles>; plus \\+ one/CN=x=y',
        "/CN=J\u00fcrgen \u7530\u4e2d",
        "/DC=com/DC=example/UID=u1",
        "/CN=line\nbreak",
    ],
)
def test_a_subject_is_what_openssl_prints(authority: Authority, subject: str) -> None:
    certificate, _ = authority.issue("one", subject)
    printed = openssl(
        authority.directory, "x509", "-in", certificate, "-noout", "-subject",
        "-nameopt", "RFC2253,-esc_msb",
    )  # fmt: skip
    printed = printed.replace("street=", "STREET=")  # RFC 2253 spells it so
    assert subject_name(der(certificate)) == printed.removeprefix("subject=").rstrip("\n")


def test_parts_of_one_name_keep_their_order(authority: Authority) -> None:
    # As in Java, whose principals Kafka's are; openssl turns them round.
    certificate, _ = authority.issue("two", "/O=Example/CN=two+OU=parts")
    assert subject_name(der(certificate)) == "CN=two+OU=parts,O=Example"


def test_an_attribute_without_a_keyword_has_its_number_and_its_bytes(authority: Authority) -> None:
    certificate, _ = authority.issue("mail", "/CN=m/emailAddress=a@b")
    assert subject_name(der(certificate)) == "1.2.840.113549.1.9.1=#1603614062,CN=m"


def test_a_certificate_that_is_cut_or_changed_has_no_other_error(authority: Authority) -> None:
    whole = der(authority.issue("cut", "/O=Example/CN=cut")[0])
    for size in range(len(whole)):
        with pytest.raises(MalformedName):
            subject_name(whole[:size])
    for at in range(min(len(whole), 200)):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        try:
            assert isinstance(subject_name(bytes(changed)), str)
        except MalformedName:
            continue


@given(st.binary(max_size=60))
def test_no_bytes_have_another_error(data: bytes) -> None:
    with pytest.raises(MalformedName):
        subject_name(data)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_a_comma_that_ends_a_value_is_never_taken_from_one(text: str) -> None:
    bare = escaped(text).replace("\\\\", "").replace("\\,", "")
    assert "," not in bare
