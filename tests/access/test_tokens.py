"""Which tokens of an identity provider are good, and what attacks on them come to."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.hashes import SHA256
from hypothesis import given
from hypothesis import strategies as st

from penstock.access.bearer import Bearer
from penstock.access.errors import MalformedKeys, MalformedToken
from penstock.access.tokens import Keys, TokenRules, UnknownKey, parse_keys, token_checker
from tests.access.provider import AUDIENCE, ISSUER, Provider

PROVIDER = Provider()
KEYS = parse_keys(PROVIDER.document())
ALL = ("RS256", "PS256", "ES256", "EdDSA")


def rules(**changed: Any) -> TokenRules:
    expected = {"issuer": ISSUER, "audiences": (AUDIENCE, "other"), "algorithms": ALL}
    return TokenRules(**(expected | changed))


def checked(token: str, *, keys: Keys = KEYS, now: float | None = None, **changed: Any) -> Bearer:
    at_ms = int((time.time() if now is None else now) * 1000)
    return token_checker(rules(**changed), lambda: keys, lambda: at_ms)(token)


def refused(token: str, said: str, **how: Any) -> None:
    with pytest.raises(MalformedToken, match=said):
        checked(token, **how)


@pytest.mark.parametrize(
    ("name", "algorithm"), [("rsa", "RS256"), ("rsa", "PS256"), ("ec", "ES256"), ("ed", "EdDSA")]
)
def test_a_good_token_names_its_user_and_its_end(name: str, algorithm: str) -> None:
    end = int(time.time()) + 60
    assert checked(PROVIDER.token(name, algorithm, exp=end)) == Bearer("alice", end * 1000)


def test_another_claim_may_name_the_user() -> None:
    assert checked(PROVIDER.token(email="a@b"), user_claim="email").user == "a@b"
    refused(PROVIDER.token(), "no user in claim email", user_claim="email")


# --- time --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "is_good"), [(1_000, True), (1_029.999, True), (1_030, False), (2_000, False)]
)
def test_a_token_is_over_at_its_end_and_the_skew(at: float, is_good: bool) -> None:
    token = PROVIDER.token(exp=1_000, iat=None)
    if is_good:
        assert checked(token, now=at).expires_ms == 1_000_000
    else:
        refused(token, "is over", now=at)


@pytest.mark.parametrize("claim", ["nbf", "iat"])
def test_a_token_is_not_good_before_its_time_and_the_skew(claim: str) -> None:
    times: dict[str, Any] = {"iat": None, claim: 1_000}
    token = PROVIDER.token(exp=9_000, **times)
    refused(token, rf"not good yet \({claim}\)", now=969.999)
    assert checked(token, now=970).user == "alice"
    refused(token, "not good yet", now=999, skew_seconds=0)


@pytest.mark.parametrize("value", ["1000", True, -1, 1e300, float("nan"), float("inf"), [1], {}])
@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
def test_a_time_that_is_none_is_refused(claim: str, value: object) -> None:
    claims: dict[str, Any] = {claim: value}
    refused(PROVIDER.token(**claims), f"no time in claim {claim}")


def test_a_token_without_an_end_is_refused() -> None:
    refused(PROVIDER.token(exp=None), "no time in claim exp")


# --- for whom, by whom -------------------------------------------------------------------------


@pytest.mark.parametrize("issuer", [None, "", "https://provider.example/", [ISSUER], 1])
def test_another_issuer_is_refused(issuer: object) -> None:
    refused(
        PROVIDER.token(iss=issuer) if isinstance(issuer, str | None) else odd(iss=issuer), "iss"
    )


def odd(**changed: object) -> str:
    """Return a token with claims that the library for tokens refuses to write."""
    claims = json.dumps(PROVIDER.claims(**changed)).encode()
    from jwt import PyJWS

    return PyJWS().encode(claims, PROVIDER.keys["rsa"], "RS256", headers={"kid": "rsa"})


@pytest.mark.parametrize("audience", [None, "", "penstoc", ["x"], [], [1], [[AUDIENCE]], {}])
def test_another_audience_is_refused(audience: object) -> None:
    refused(odd(aud=audience), "for another audience")


@pytest.mark.parametrize("audience", [AUDIENCE, "other", ["x", "other"]])
def test_one_of_the_audiences_suffices(audience: object) -> None:
    assert checked(odd(aud=audience)).user == "alice"


@pytest.mark.parametrize("user", [None, "", 1, ["alice"], "a\nb", "a\0", "u" * 257])
def test_a_user_that_is_no_name_is_refused(user: object) -> None:
    refused(odd(sub=user), "no user in claim sub")


# --- attacks -----------------------------------------------------------------------------------


def forged(header: dict[str, Any], signature: bytes = b"", **claims: object) -> str:
    """Return a token with any header, and a signature that was made somehow."""
    return f"{signed_part(header, **claims)}.{encoded(signature)}"


def signed_part(header: dict[str, Any], **claims: object) -> str:
    parts = (header, PROVIDER.claims(**claims))
    return ".".join(encoded(json.dumps(part).encode()) for part in parts)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, 1, ["RS256"], "RS512"])
def test_an_algorithm_that_is_not_permitted_is_refused(algorithm: object) -> None:
    refused(forged({"alg": algorithm, "kid": "rsa"}), "is not permitted|not a good token")


def test_an_algorithm_of_the_key_that_is_not_permitted_is_refused() -> None:
    refused(PROVIDER.token("rsa", "RS512"), "algorithm 'RS512' is not permitted")
    refused(PROVIDER.token("rsa", "RS256"), "not permitted", algorithms=("ES256",))


def test_a_public_key_is_no_shared_key() -> None:
    header = {"alg": "HS256", "kid": "rsa"}
    signed = signed_part(header, sub="admin")
    for shared in (PROVIDER.pem("rsa"), json.dumps(PROVIDER.public("rsa")).encode()):
        made = hmac.digest(shared, signed.encode(), hashlib.sha256)
        refused(f"{signed}.{encoded(made)}", "algorithm 'HS256' is not permitted")


def test_a_key_is_used_for_what_it_is_made_for_only() -> None:
    refused(PROVIDER.token("rsa", "RS256", header={"kid": "ec"}), "key 'ec' is not for RS256")
    refused(PROVIDER.token("ec", "ES256", header={"kid": "rsa"}), "key 'rsa' is not for ES256")
    of_pss = parse_keys(json.dumps({"keys": [PROVIDER.public("rsa", alg="PS256")]}).encode())
    refused(PROVIDER.token(), "key 'rsa' is not for RS256", keys=of_pss)
    assert checked(PROVIDER.token("rsa", "PS256"), keys=of_pss).user == "alice"


def test_a_key_of_the_attacker_is_not_looked_at() -> None:
    attacker = Provider()
    own = {"jwk": attacker.public("rsa"), "jku": "https://attacker.example/", "x5u": "file:///x"}
    refused(attacker.token(header=own), "Signature verification failed")
    refused(attacker.token(header=own | {"kid": "attackers"}), "no key 'attackers'")


@pytest.mark.parametrize(
    "name", ["../../dev/null", "' OR 1=1 --", "rsa\0", "RSA", " rsa", "http://attacker.example"]
)
def test_a_name_of_a_key_is_only_compared(name: str) -> None:
    with pytest.raises(UnknownKey):
        checked(PROVIDER.token(header={"kid": name}))


@pytest.mark.parametrize("name", [1, ["rsa"], {"a": 1}, "k" * 257])
def test_a_name_that_is_none_is_refused(name: object) -> None:
    refused(forged({"alg": "RS256", "kid": name}, bytes(256)), "name|good token")


def test_a_token_that_names_no_key_is_checked_by_the_only_one() -> None:
    nameless = PROVIDER.token(header={"kid": None})
    assert checked(nameless, keys=parse_keys(PROVIDER.document("rsa"))).user == "alice"
    refused(nameless, "no key ''")
    refused(nameless, "no key ''", keys={})


def test_the_only_key_checks_no_token_that_names_another() -> None:
    only = parse_keys(PROVIDER.document("rsa"))
    refused(PROVIDER.token(header={"kid": "other"}), "no key 'other'", keys=only)


def test_without_keys_nothing_is_good() -> None:
    refused(PROVIDER.token(), "no key 'rsa'", keys={})


def test_what_is_signed_is_what_counts() -> None:
    header, _, signature = PROVIDER.token(sub="alice").split(".")
    claims = encoded(json.dumps(PROVIDER.claims(sub="admin")).encode())
    refused(f"{header}.{claims}.{signature}", "Signature verification failed")
    refused(f"{header}.{claims}.", "not a good token")


def test_a_header_that_asks_for_more_is_refused() -> None:
    asks: list[dict[str, Any]] = [{"crit": ["exp"]}, {"crit": []}, {"crit": ["b64"], "b64": False}]
    for more in asks:
        part = signed_part({"alg": "RS256", "kid": "rsa"} | more)
        refused(f"{part}.{encoded(bytes(256))}", "must be understood|not a good token")
    # Well signed, and by the library understood.
    part = signed_part({"alg": "RS256", "kid": "rsa", "crit": ["b64"], "b64": True})
    signature = PROVIDER.keys["rsa"].sign(part.encode(), PKCS1v15(), SHA256())
    refused(f"{part}.{encoded(signature)}", "must be understood")


@pytest.mark.parametrize(
    "token", ["", ".", "..", "a.b.c", "a" * 10_000, "e30.e30.e30", "e30.W10.x"]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    refused(token, "not a good token|is not permitted")


def test_claims_that_are_no_claims_are_refused() -> None:
    from jwt import PyJWS

    for payload in (b"[]", b"1", b"null", b"{", b"[" * 100_000, b"\xff"):
        token = PyJWS().encode(payload, PROVIDER.keys["rsa"], "RS256", headers={"kid": "rsa"})
        refused(token, "without claims|not a good token")


# --- the set of keys ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        b"", b"{}", b"[]", b"1", b'{"keys":[]}', b'{"keys":[1]}', b'{"keys":[{}]}', b'{"keys":7}',
        b'{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"a"}]}', b"[" * 100_000, b"\xff",
        b'{"keys":[{"kty":"RSA","kid":"a","n":"AA","e":"AQAB"}]}',
        b'{"keys":[{"kty":"EC","kid":"a","crv":"P-999","x":"AA","y":"AA"}]}',
        b'{"keys":[{"kty":["RSA"]}]}',
    ],
)  # fmt: skip
def test_a_set_without_a_key_that_can_be_used_is_refused(document: bytes) -> None:
    with pytest.raises(MalformedKeys):
        parse_keys(document)


def test_two_keys_of_one_name_are_refused() -> None:
    twice = {"keys": [PROVIDER.public("rsa"), PROVIDER.public("ec", kid="rsa")]}
    with pytest.raises(MalformedKeys, match="two keys of one name"):
        parse_keys(json.dumps(twice).encode())


def test_keys_for_other_things_are_left_out() -> None:
    shared = {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}
    listed = [PROVIDER.public("rsa"), PROVIDER.public("ec", use="enc"), shared]
    assert set(parse_keys(json.dumps({"keys": listed}).encode())) == {"rsa"}


RSA, EC, OKP = (PROVIDER.public(name, kid="odd") for name in ("rsa", "ec", "ed"))


@pytest.mark.parametrize(
    "odd",
    [
        RSA | {"n": "AA"}, RSA | {"n": 5}, RSA | {"n": None}, {"kty": "RSA", "kid": "odd"},
        RSA | {"alg": "RSA-OAEP-256"}, RSA | {"alg": ["RS256"]}, RSA | {"kid": 5},
        EC | {"crv": "P-999"}, EC | {"crv": ["P-256"]}, EC | {"crv": {}}, EC | {"x": "AA"},
        EC | {"crv": "secp256k1"}, OKP | {"crv": "X25519"}, OKP | {"x": "\ud800"},
        {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "kid": "odd"}, {"kty": ["RSA"]},
        {"kty": {}}, {}, [], 1, None, "RSA",
    ],
)  # fmt: skip
def test_a_key_that_can_not_be_used_keeps_no_other_from_being_known(odd: object) -> None:
    listed = [odd, PROVIDER.public("ec")]
    assert set(parse_keys(json.dumps({"keys": listed}).encode())) == {"ec"}


def test_more_keys_than_a_provider_has_are_refused() -> None:
    many = [PROVIDER.public("ec", kid=str(number)) for number in range(101)]
    with pytest.raises(MalformedKeys, match="101 keys"):
        parse_keys(json.dumps({"keys": many}).encode())


# --- anything ----------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
@given(st.data())
def test_a_token_that_is_changed_anywhere_names_nobody_else(
    algorithm: str, data: st.DataObject
) -> None:
    """One character of any part is another one, is gone, or is there twice."""
    token = GOOD[algorithm]
    at = data.draw(st.integers(0, len(token) - 1))
    put = data.draw(st.sampled_from(["", token[at] * 2, ".", "=", *"AEIMQUYcgkosw048_-"]))
    changed = token[:at] + put + token[at + 1 :]
    is_signed = changed.rpartition(".")[0] == token.rpartition(".")[0]
    try:
        found = checked(changed)
    except MalformedToken:
        return
    assert is_signed, "what is signed is as it was: bits that base64 leaves unused, at most"
    assert found.user == "alice"


GOOD = {
    algorithm: PROVIDER.token(name, algorithm)
    for name, algorithm in (("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA"))
}
