"""Tokens of an identity provider (JWT), and the keys that they are checked by (JWKS).

A token is good if all of this holds:

    signature    by a key of the provider's set, which the header names by `kid`
    alg          permitted by the settings, and what the key is made for: no `none`, no HS256
    exp          not over, by more than the skew of clocks; a token without is refused
    nbf, iat     not in the future, by more than the skew
    iss, aud     the expected ones; a token without is refused
    sub          or another claim: names the user

What a header says about where keys are (`jku`, `x5u`, `jwk`, `x5c`) is never looked at, and `crit`
is refused: nothing that it could name is understood.

The library for signatures is imported when a checker is made: a node without OAUTHBEARER does not
import it.

Source: RFC 7515, RFC 7517, RFC 7519, RFC 8725 (what goes wrong); KIP-768 for the settings' names.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from penstock.access.bearer import Bearer, CheckToken
from penstock.access.errors import MalformedKeys, MalformedToken

KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "RS256": ("RSA", ""),
    "RS384": ("RSA", ""),
    "RS512": ("RSA", ""),
    "PS256": ("RSA", ""),
    "PS384": ("RSA", ""),
    "PS512": ("RSA", ""),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", ""),
}
"""Algorithms that can be permitted, with the kind of key and the curve; none has a shared key."""
KEYS_MAX = 100
KEY_NAME_MAX = 256
USER_MAX = 256
SECONDS_MAX = 2**40
"""Times beyond it are mistakes, and would not fit into milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRules:
    """What is expected of tokens."""

    issuer: str
    audiences: tuple[str, ...]
    """A token names one of them."""
    algorithms: tuple[str, ...]
    user_claim: str = "sub"
    skew_seconds: int = 30


Keys = Mapping[str, Mapping[str, Any]]
"""Public keys as in the provider's set, by name; one without a name is called by an empty one."""


def parse_keys(data: bytes) -> Keys:
    """Return the keys of a set (JWKS) that can check signatures. Raises MalformedKeys.

    What can not be used is left out, and the others count (RFC 7517 5): a provider that begins to
    publish keys of a new kind must not keep those from being known that it signs by.
    """
    try:
        listed = json.loads(data)["keys"]
        found = [key for key in listed if _is_for_signatures(key)]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise MalformedKeys("not a set of keys (JWKS)") from error
    if not found or len(found) > KEYS_MAX:
        raise MalformedKeys(f"{len(found)} keys that can check signatures: 1 to {KEYS_MAX} can be")
    keys: dict[str, Mapping[str, Any]] = {}
    why_not: MalformedKeys | None = None
    for key in found:
        try:
            name = _name_of(key)
        except MalformedKeys as error:
            why_not = error
            continue
        if name in keys:
            raise MalformedKeys("two keys of one name")
        keys[name] = key
    if not keys:
        raise MalformedKeys(f"no key can be used: {why_not}") from why_not
    return keys


_KEY_KINDS: Final = frozenset(kind for kind, _ in KINDS.values())


def _is_for_signatures(key: Any) -> bool:
    kind = key.get("kty") if isinstance(key, dict) else None
    is_known = isinstance(kind, str) and kind in _KEY_KINDS
    return is_known and key.get("use", "sig") == "sig"


def _name_of(key: Mapping[str, Any]) -> str:
    """Return the name of a key that can be used. Raises MalformedKeys."""
    name = key.get("kid", "")
    if not isinstance(name, str):
        raise MalformedKeys("a key's name that is no text")
    _loaded(key, _usual_algorithm(key))
    return name


def _usual_algorithm(key: Mapping[str, Any]) -> str:
    """Return an algorithm of the key, to see that it can be loaded. Raises MalformedKeys."""
    for algorithm, (kind, curve) in KINDS.items():
        if kind == key["kty"] and curve in ("", key.get("crv")):
            return str(key.get("alg", algorithm))
    raise MalformedKeys(f"a key of a curve that is not known: {str(key.get('crv'))[:20]!r}")


def _loaded(key: Mapping[str, Any], algorithm: str) -> Any:
    from jwt import PyJWK  # noqa: PLC0415  only where OAUTHBEARER is on
    from jwt.exceptions import PyJWTError  # noqa: PLC0415

    public = {name: value for name, value in key.items() if name in _PUBLIC}
    try:
        return PyJWK(public, algorithm=algorithm)
    except (PyJWTError, ValueError, TypeError) as error:
        raise MalformedKeys(f"a key that can not be read: {error}") from error


_PUBLIC = frozenset({"kty", "kid", "use", "alg", "n", "e", "crv", "x", "y"})
"""What is read of a key: private parts that a provider publishes by mistake are not."""


def token_checker(
    rules: TokenRules, keys: Callable[[], Keys], wall_ms: Callable[[], int]
) -> CheckToken:
    """Return what checks tokens; `keys` returns those that count now, none while there are none."""
    import jwt as _  # noqa: F401, PLC0415  so that the first client does not wait for it

    return partial(_check, rules, keys, wall_ms)


def _check(
    rules: TokenRules, keys: Callable[[], Keys], wall_ms: Callable[[], int], token: str
) -> Bearer:
    from jwt import PyJWS  # noqa: PLC0415
    from jwt.exceptions import PyJWTError  # noqa: PLC0415

    signatures = PyJWS()
    try:
        header = signatures.get_unverified_header(token)
        algorithm = _algorithm(header, rules)
        key = _loaded(_key(header, algorithm, keys()), algorithm)
        payload = signatures.decode(token, key, algorithms=[algorithm])
        claims = json.loads(payload)
    except (PyJWTError, MalformedKeys, ValueError, TypeError, RecursionError) as error:
        raise MalformedToken(f"not a good token: {str(error)[:200]}") from error
    if not isinstance(claims, dict):
        raise MalformedToken("a token without claims")
    _check_names(claims, rules)
    return Bearer(_user(claims, rules), _expiry_ms(claims, rules, wall_ms()))


def _algorithm(header: Mapping[str, Any], rules: TokenRules) -> str:
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm not in rules.algorithms:
        raise MalformedToken(f"algorithm {str(algorithm)[:20]!r} is not permitted")
    if "crit" in header:
        raise MalformedToken("a header with extensions that must be understood")
    return algorithm


def _key(header: Mapping[str, Any], algorithm: str, keys: Keys) -> Mapping[str, Any]:
    """Return the key that a header names, or the only one there is."""
    name = header.get("kid", "")
    if not isinstance(name, str) or len(name) > KEY_NAME_MAX:
        raise MalformedToken("a key's name that is none")
    key = next(iter(keys.values())) if not name and len(keys) == 1 else keys.get(name)
    if key is None:
        raise UnknownKey(f"no key {name[:50]!r}")
    kind, curve = KINDS[algorithm]
    fits = key["kty"] == kind and curve in {"", key.get("crv")}
    if not fits or key.get("alg", algorithm) != algorithm:
        raise MalformedToken(f"key {name[:50]!r} is not for {algorithm}")
    return key


class UnknownKey(MalformedToken):
    """No key has the name; the provider may have made a new one."""


def _check_names(claims: Mapping[str, Any], rules: TokenRules) -> None:
    if claims.get("iss") != rules.issuer:
        raise MalformedToken("another issuer")
    told = claims.get("aud")
    audiences = told if isinstance(told, list) else [told]
    if not any(isinstance(one, str) and one in rules.audiences for one in audiences):
        raise MalformedToken("for another audience")


def _user(claims: Mapping[str, Any], rules: TokenRules) -> str:
    user = claims.get(rules.user_claim)
    if not isinstance(user, str) or not 0 < len(user) <= USER_MAX or not user.isprintable():
        raise MalformedToken(f"no user in claim {rules.user_claim}")
    return user


def _expiry_ms(claims: Mapping[str, Any], rules: TokenRules, now_ms: int) -> int:
    """Return when the token ends, by the wall clock. Raises MalformedToken at another time."""
    skew_ms = rules.skew_seconds * 1_000
    ends_ms = _time_ms(claims, "exp")
    if ends_ms + skew_ms <= now_ms:
        raise MalformedToken("a token that is over")
    for claim in ("nbf", "iat"):
        if claim in claims and _time_ms(claims, claim) - skew_ms > now_ms:
            raise MalformedToken(f"a token that is not good yet ({claim})")
    return ends_ms


def _time_ms(claims: Mapping[str, Any], claim: str) -> int:
    value = claims.get(claim)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise MalformedToken(f"no time in claim {claim}")
    if not 0 <= value < SECONDS_MAX:
        raise MalformedToken(f"no time in claim {claim}")
    return int(value * 1_000)
