"""SCRAM: the examples of the RFCs, and what an exchange with a wrong message gives away."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.access.errors import MalformedToken
from penstock.access.scram import (
    HASHES,
    MESSAGE_BYTES_MAX,
    ScramClient,
    ScramKeys,
    ScramServer,
    keys_of,
    salted_password,
    unknown_keys,
)

SALT = b"sixteen bytes of salt"
USER, PASSWORD = "a,b=c", "pencil"


def server_with(keys: ScramKeys, mechanism: str = "SCRAM-SHA-256") -> ScramServer:
    return ScramServer(mechanism, lambda _: keys, "server")


def keys(mechanism: str = "SCRAM-SHA-256", password: str = PASSWORD) -> ScramKeys:
    return keys_of(mechanism, salted_password(mechanism, password, SALT, 4096), SALT, 4096)


def test_example_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = salted_password("SCRAM-SHA-256", "pencil", salt, 4096)
    kept = keys_of("SCRAM-SHA-256", salted, salt, 4096)
    server = ScramServer("SCRAM-SHA-256", lambda _: kept, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    challenge = server.first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert challenge == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert server.final(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize("mechanism", HASHES)
def test_both_ends_prove_that_they_know_the_password(mechanism: str) -> None:
    server = server_with(keys(mechanism), mechanism)
    client = ScramClient(mechanism, USER, PASSWORD, "client")
    signature = server.final(client.final(server.first(client.first())))
    assert server.user == USER
    assert signature is not None
    assert client.is_servers(signature)
    assert not client.is_servers(b"v=" + signature[2:][::-1])


def test_a_wrong_password_proves_nothing() -> None:
    server = server_with(keys())
    client = ScramClient("SCRAM-SHA-256", USER, "pencils", "client")
    assert server.final(client.final(server.first(client.first()))) is None


def test_an_unknown_user_gets_the_same_salt_each_time_and_fails_at_the_end() -> None:
    like = keys()
    one, again = (unknown_keys("SCRAM-SHA-256", "nobody", b"secret", like) for _ in range(2))
    other = unknown_keys("SCRAM-SHA-256", "somebody", b"secret", like)
    assert one == again
    assert one.salt != other.salt
    assert (len(one.salt), one.iterations) == (len(SALT), 4096)
    client = ScramClient("SCRAM-SHA-256", "nobody", PASSWORD, "client")
    server = server_with(one)
    assert server.final(client.final(server.first(client.first()))) is None


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n,,",
        b"n,,n=,r=x",
        b"n,,n=user",
        b"p=tls-unique,,n=user,r=x",
        b"n,a=other,n=user,r=x",
        b"n,,n=us=er,r=x",
        b"n,,n=user,r=\xff",
        b"n,,m=ext,n=user,r=x",
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(MalformedToken):
        server_with(keys()).first(first)


@pytest.mark.parametrize(
    "change",
    [
        lambda final: final.replace(b"c=biws", b"c=eSws"),
        lambda final: final.replace(b"r=clientserver", b"r=clientother"),
        lambda final: final[: final.index(b",p=")],
        lambda final: final + b"!",
        lambda final: b"",
    ],
)
def test_a_final_message_of_another_exchange_is_refused(change: object) -> None:
    server = server_with(keys())
    client = ScramClient("SCRAM-SHA-256", USER, PASSWORD, "client")
    final = client.final(server.first(client.first()))
    with pytest.raises(MalformedToken):
        server.final(change(final))  # type: ignore[operator]


def test_a_proof_of_another_length_proves_nothing() -> None:
    server = server_with(keys())
    client = ScramClient("SCRAM-SHA-256", USER, PASSWORD, "client")
    final = client.final(server.first(client.first()))
    assert server.final(final[: final.index(b",p=")] + b",p=AAAA") is None


def test_a_client_computes_no_proof_for_few_or_endless_iterations() -> None:
    for iterations in (1, 4095, 99_999_999):
        client = ScramClient("SCRAM-SHA-256", USER, PASSWORD, "client")
        with pytest.raises(MalformedToken):
            client.final(b"r=clientserver,s=c2FsdA==,i=%d" % iterations)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    server = server_with(keys())
    with pytest.raises(MalformedToken):
        server.first(data)
    server.first(b"n,,n=user,r=client")
    with pytest.raises(MalformedToken):
        server.final(data)


def test_what_is_kept_is_shown_to_nobody() -> None:
    assert "stored" not in repr(keys())
    assert "server_key" not in repr(keys())


@given(st.data())
def test_a_final_message_that_is_changed_anywhere_proves_nothing(data: st.DataObject) -> None:
    """But for bits that base64 leaves unused: the proof is the same then."""
    server = server_with(keys())
    client = ScramClient("SCRAM-SHA-256", USER, PASSWORD, "client")
    final = bytearray(client.final(server.first(client.first())))
    at = data.draw(st.integers(0, len(final) - 1))
    changed = final[:at] + bytes([data.draw(st.integers(0, 255))]) + final[at + 1 :]
    proof = changed.rpartition(b",p=")[2]
    try:
        is_same = changed[: -len(proof)] == final[: -len(proof)]
        is_same = is_same and b64decode(proof) == b64decode(final.rpartition(b",p=")[2])
        signature = server.final(bytes(changed))
    except ValueError:
        return
    except MalformedToken:
        assert not is_same
        return
    assert (signature is not None) is is_same


@pytest.mark.parametrize("more", [0, 1])
def test_a_message_has_a_bound(more: int) -> None:
    kept = keys()
    first = b"n,,n=user,r=nonce,a="
    first = first.ljust(MESSAGE_BYTES_MAX + more, b"b")
    server = server_with(kept)
    if more:
        with pytest.raises(MalformedToken, match=f"a message of {len(first)} bytes"):
            server.first(first)
        server.first(b"n,,n=user,r=nonce")
    else:
        server.first(first)
    final = b"c=biws,r=nonceserver,a=".ljust(MESSAGE_BYTES_MAX + more - 7, b"b") + b",p=AAAA"
    if more:
        with pytest.raises(MalformedToken, match=f"a message of {len(final)} bytes"):
            server.final(final)
    else:
        assert server.final(final) is None
