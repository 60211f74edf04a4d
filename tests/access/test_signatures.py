"""Signatures of requests by access keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.access import signatures
from penstock.access.signatures import Proof, signature_of, signer_of
from tests.remoting.signing import signed

KEYS = {"one": (b"the first secret",), "two": (b"an old secret", b"a new secret")}
texts = st.text(max_size=20)


def test_a_signature_is_that_of_rocketmq_s_hook() -> None:
    """Source: AclClientRPCHook of RocketMQ 5.3.3, run with these fields, body and secret."""
    fields = {"topic": "grün", "queueId": "3", "AccessKey": "one", "b": "", "Signature": "x"}
    expected = b"242k95O5DaUbVECc3NmgYARHZiI="
    assert signature_of(fields, b"a body", b"the first secret") == expected


@given(st.dictionaries(texts, texts), st.binary(max_size=99), st.sampled_from(list(KEYS)))
def test_who_has_signed_is_known_by_any_of_its_secrets(
    fields: dict[str, str], body: bytes, user: str
) -> None:
    for secret in KEYS[user]:
        named = {
            name: str(one) for name, one in signed(fields, body, user, secret.decode()).items()
        }
        assert signer_of(named, body, KEYS) == Proof(user, secret)
        assert signer_of(named, body + b"x", KEYS) is None
        assert signer_of(named | {"new": "x"}, body, KEYS) is None
        assert signer_of(named | {"AccessKey": "nobody"}, body, KEYS) is None
        assert signer_of(named, body, {user: (b"another secret of it",)}) is None


@pytest.mark.parametrize("told", ["", "x", "\udc80", "ß", "A" * 100_000])
@pytest.mark.parametrize("user", ["", "one", "nobody", "ß"])
def test_what_is_no_signature_is_nobody_s(user: str, told: str) -> None:
    assert signer_of({"AccessKey": user, "Signature": told}, b"", KEYS) is None
    assert signer_of({"Signature": told}, b"", KEYS) is None
    assert signer_of({"AccessKey": user}, b"", KEYS) is None


@pytest.mark.parametrize("user", ["one", "two", "nobody"])
def test_a_wrong_signature_is_as_much_work_whoever_is_named(
    user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []

    def counted(*given: object) -> bytes:
        made.append(signature_of(*given))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(signatures, "signature_of", counted)
    assert signer_of({"AccessKey": user, "Signature": "x"}, b"body", KEYS) is None
    assert len(made) == 2
