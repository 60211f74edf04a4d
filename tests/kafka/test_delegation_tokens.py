"""The APIs of delegation tokens, and who is let in by a token, on a node with SASL."""

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.access.authoriser import AclAuthoriser
from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.access.delegation import password_of, secrets_of
from penstock.access.rules import AclOperation, AclPattern, AclPermission, AclResource, Rule
from penstock.access.scram import ScramClient
from penstock.broker.access import PermitsAll
from penstock.controller.commands.command import ChangeFeatureLevel
from penstock.controller.commands.delegation.commands import ExpireToken
from penstock.controller.commands.delegation.tokens import RENEWERS_MAX
from penstock.controller.errors import FeatureLevelRefused
from penstock.controller.metadata.levels import METADATA, TOKENS_LEVEL
from penstock.kafka.sasl.session import SaslSession
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.error_codes import ErrorCode as Code
from tests.kafka.gate_asks import ms
from tests.kafka.test_sasl import choose, principals, prove, secured
from tests.live_node import LiveNode, RawClient, running_node

CREATE, RENEW = ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.RENEW_DELEGATION_TOKEN
EXPIRE, DESCRIBE = ApiKey.EXPIRE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN
DAY_MS = 86_400_000
REFUSED = Code.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
SECRET = "a secret of more than 32 characters"
OLD_TAG = secrets_of("", [SECRET]).tag
SHA = "SCRAM-SHA-512"


def secret_file(directory: Path) -> Path:
    path = directory / "token-secret"
    path.write_text(SECRET + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def module_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    directory = tmp_path_factory.mktemp("tokens")
    (directory / "data").mkdir()
    tokens = f"security.delegation_token_secret_file={secret_file(directory)}"
    with running_node(directory / "data", *secured(directory, tokens)) as node:
        yield node


@pytest.fixture
def node(module_node: LiveNode) -> Iterator[LiveNode]:
    """The node without a token, and with an authoriser that permits everything."""
    yield module_node
    module_node.broker.authoriser = PermitsAll()
    for token in list(module_node.broker.metadata.configuration.tokens.values()):
        module_node.submit(ExpireToken(token_id=token.token_id, asker=token.owner))


@pytest.fixture
def alice(node: LiveNode) -> Iterator[RawClient]:
    with known(node, "alice") as client:
        yield client


def hmac_of(node: LiveNode, token_id: str) -> bytes:
    secrets = node.front.token_secrets()
    assert secrets is not None
    return secrets.hmac_of(token_id)


@contextmanager
def known(node: LiveNode, user: str) -> Iterator[RawClient]:
    """A client that has proved a password."""
    with closing(node.connect()) as client:
        choose(client, "PLAIN")
        password = {"alice": "pa", "bob": "p:b"}[user]
        assert prove(client, f"\0{user}\0{password}".encode()).error_code == Code.NONE
        yield client


def log_in(client: RawClient, token_id: str, proof: bytes, mechanism: str = SHA) -> Any:
    """Prove a token; return the last answer."""
    choose(client, mechanism)
    scram = ScramClient(mechanism, token_id, password_of(proof), "nonce", is_token=True)
    return prove(client, scram.final(prove(client, scram.first()).auth_bytes))


def let_prove_again(node: LiveNode) -> None:
    """Let a second have passed since the client that is known by a token has proved it."""
    listener = node.node._listener
    assert listener is not None
    (guard,) = [
        one.guard for one in node.call(lambda: list(listener.connections)) if one.is_by_token
    ]
    assert isinstance(guard, SaslSession)
    assert guard._proved_ms is not None
    guard._proved_ms -= 1_001


def create(client: RawClient, version: int = 3, **more: Any) -> Any:
    fields = {"owner_principal_type": None, "owner_principal_name": None}
    wanted = {"renewers": (), **({} if "max_lifetime_ms" in more else {"max_lifetime": ms(-1)})}
    return client.ask(CREATE, version, fields | wanted | more)


def of(user: str) -> dict[str, Any]:
    return {"owner_principal_type": "User", "owner_principal_name": user}


def users(*names: str, kind: str = "User") -> list[dict[str, str]]:
    return [{"principal_type": kind, "principal_name": name} for name in names]


def renew(client: RawClient, proof: bytes, period_ms: int = -1, version: int = 2) -> Any:
    return client.ask(RENEW, version, {"hmac": proof, "renew_period": ms(period_ms)})


def expire(client: RawClient, proof: bytes, period_ms: int = -1, version: int = 2) -> Any:
    return client.ask(EXPIRE, version, {"hmac": proof, "expiry_time_period": ms(period_ms)})


def described(client: RawClient, *owners: str, version: int = 3) -> list[Any]:
    asked = users(*owners) if owners else None
    answer = client.ask(DESCRIBE, version, {"owners": asked})
    assert answer.error_code == Code.NONE
    return list(answer.tokens)


def allow(node: LiveNode, resource: AclResource, name: str, operation: AclOperation) -> None:
    made = AclAuthoriser(AccessConfig(authorizer=AuthoriserKind.ACL, super_users=("User:root",)))
    rule = Rule(
        resource_type=resource, resource_name=name, pattern=AclPattern.LITERAL,
        principal="User:alice", host="*", operation=operation, permission=AclPermission.ALLOW,
    )  # fmt: skip
    made.change([(b"1", rule)], [])
    node.broker.authoriser = made


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_is_made_and_described(node: LiveNode, alice: RawClient, version: int) -> None:
    made = create(alice, version, renewers=users("bob", "bob"))
    assert made.error_code == Code.NONE
    assert (made.principal_type, made.principal_name) == ("User", "alice")
    assert made.expiry_timestamp - made.issue_timestamp == ms(DAY_MS)
    assert made.max_timestamp - made.issue_timestamp == ms(7 * DAY_MS)
    assert made.hmac == hmac_of(node, made.token_id)
    assert len(made.hmac) == 64
    (token,) = described(alice, version=version)
    assert (token.token_id, token.hmac, token.principal_name) == (made.token_id, made.hmac, "alice")
    assert [one.principal_name for one in token.renewers] == ["bob"]
    assert token.max_timestamp - token.issue_timestamp == 7 * DAY_MS
    if version == 3:
        assert made.token_requester_principal_name == "alice"
        assert token.token_requester_principal_name == "alice"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_lets_its_owner_in_who_may_not_ask_for_tokens(
    node: LiveNode, alice: RawClient, mechanism: str
) -> None:
    made = create(alice)
    with closing(node.connect()) as client:
        answer = log_in(client, made.token_id, made.hmac, mechanism)
        assert answer.error_code == Code.NONE
        assert ms(0) < answer.session_lifetime <= ms(DAY_MS)
        assert principals(node) == ["User:alice", "User:alice"]
        assert client.ask(ApiKey.METADATA, 4, {"topics": []}).brokers
        refused = create(client)
        assert (refused.error_code, refused.hmac, refused.token_id) == (REFUSED, b"", "")
        assert renew(client, made.hmac).error_code == REFUSED
        assert expire(client, made.hmac).error_code == REFUSED
        answer = client.ask(DESCRIBE, 3, {"owners": None})
        assert (answer.error_code, list(answer.tokens)) == (REFUSED, [])
    assert described(alice)


def test_a_token_is_no_users_password_and_a_password_no_tokens(
    node: LiveNode, alice: RawClient
) -> None:
    made = create(alice)
    for user, password, is_token in (
        (made.token_id, password_of(made.hmac), False),
        ("alice", "pa", True),
        (made.token_id, password_of(made.hmac[::-1]), True),
    ):
        with closing(node.connect()) as client:
            choose(client, SHA)
            scram = ScramClient(SHA, user, password, "nonce", is_token=is_token)
            answer = prove(client, scram.final(prove(client, scram.first()).auth_bytes))
            assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED
            assert made.token_id not in answer.error_message


def test_a_token_that_is_over_or_gone_lets_nobody_in(node: LiveNode, alice: RawClient) -> None:
    over, gone = create(alice), create(alice)
    assert expire(alice, over.hmac, 0).error_code == Code.NONE
    assert expire(alice, gone.hmac).error_code == Code.NONE
    assert [one.token_id for one in described(alice)] == [over.token_id]
    assert renew(alice, over.hmac).error_code == Code.DELEGATION_TOKEN_EXPIRED
    assert expire(alice, over.hmac, 5).error_code == Code.DELEGATION_TOKEN_EXPIRED
    assert renew(alice, gone.hmac).error_code == Code.DELEGATION_TOKEN_NOT_FOUND
    for made in (over, gone):
        with closing(node.connect()) as client:
            answer = log_in(client, made.token_id, made.hmac)
            assert answer.error_code == Code.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize("ask", [renew, expire])
def test_the_longest_period_of_a_client_is_as_long_as_may_be(alice: RawClient, ask: Any) -> None:
    made = create(alice, max_lifetime_ms=2**63 - 1)
    assert made.max_timestamp - made.issue_timestamp == ms(7 * DAY_MS)
    period = {"renew_period_ms": 2**63 - 1, "expiry_time_period_ms": 2**63 - 1}
    key = RENEW if ask is renew else EXPIRE
    answer = alice.ask(key, 2, {"hmac": made.hmac, **period})
    assert answer.error_code == Code.NONE
    left = answer.expiry_timestamp - made.issue_timestamp
    longest_ms = DAY_MS + 60_000 if ask is renew else 7 * DAY_MS
    assert ms(DAY_MS) <= left <= ms(longest_ms)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("ask", [renew, expire])
def test_renewers_change_a_token_and_others_do_not(
    node: LiveNode, alice: RawClient, ask: Any, version: int
) -> None:
    mine, shared = create(alice), create(alice, renewers=users("bob"))
    with known(node, "bob") as bob:
        answer = ask(bob, mine.hmac, 60_000, version)
        assert answer.error_code == Code.DELEGATION_TOKEN_OWNER_MISMATCH
        answer = ask(bob, shared.hmac, 60_000, version)
        assert answer.error_code == Code.NONE
        left = answer.expiry_timestamp - shared.issue_timestamp
        assert ms(60_000) <= left <= ms(120_000)
        assert {one.token_id for one in described(bob)} == {mine.token_id, shared.token_id}
        allow(node, AclResource.USER, "User:nobody", AclOperation.DESCRIBE_TOKENS)
        assert [one.token_id for one in described(bob)] == [shared.token_id]
        assert ask(bob, b"", 60_000, version).error_code == Code.DELEGATION_TOKEN_NOT_FOUND


def test_a_session_goes_on_with_the_renewed_token(node: LiveNode, alice: RawClient) -> None:
    made = create(alice, max_lifetime=ms(40_000))
    with closing(node.connect()) as client:
        first = log_in(client, made.token_id, made.hmac)
        assert ms(20_000) < first.session_lifetime <= ms(40_000)
        assert expire(alice, made.hmac, 20_000).error_code == Code.NONE
        let_prove_again(node)
        again = log_in(client, made.token_id, made.hmac)
        assert ms(0) < again.session_lifetime <= ms(20_000)


def test_who_proves_a_password_after_a_token_may_ask_for_tokens(
    node: LiveNode, alice: RawClient
) -> None:
    made = create(alice)
    with closing(node.connect()) as client:
        log_in(client, made.token_id, made.hmac)
        assert create(client).error_code == REFUSED
        let_prove_again(node)
        choose(client, SHA)
        scram = ScramClient(SHA, "alice", "pa", "nonce")
        prove(client, scram.final(prove(client, scram.first()).auth_bytes))
        assert create(client).error_code == Code.NONE


def test_a_token_of_somebody_else_needs_permission(node: LiveNode, alice: RawClient) -> None:
    allow(node, AclResource.USER, "User:bob", AclOperation.CREATE_TOKENS)
    made = create(alice, **of("bob"))
    assert made.error_code == Code.NONE
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "alice")
    with closing(node.connect()) as client:
        assert log_in(client, made.token_id, made.hmac).error_code == Code.NONE
        assert sorted(principals(node)) == ["User:alice", "User:bob"]
    refused = create(alice, **of("carol"))
    assert refused.error_code == Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    assert create(alice, **of("alice")).error_code == Code.NONE
    assert create(alice).error_code == Code.NONE
    assert expire(alice, made.hmac).error_code == Code.NONE


@pytest.mark.parametrize(
    ("resource", "operation", "sees"),
    [
        (AclResource.USER, AclOperation.DESCRIBE_TOKENS, True),
        (AclResource.USER, AclOperation.CREATE_TOKENS, False),
        (AclResource.DELEGATION_TOKEN, AclOperation.DESCRIBE, True),
    ],
)
def test_tokens_of_others_are_seen_with_permission(
    node: LiveNode, alice: RawClient, resource: AclResource, operation: AclOperation, sees: bool
) -> None:
    mine = create(alice)
    with known(node, "bob") as bob:
        bobs, other = create(bob), create(bob, renewers=users("alice"))
        is_user = resource is AclResource.USER
        allow(node, resource, "User:bob" if is_user else bobs.token_id, operation)
        seen = {one.token_id for one in described(alice)}
        assert seen == {mine.token_id, other.token_id} | ({bobs.token_id} if sees else set())
        assert {one.token_id for one in described(alice, "bob")} == seen - {mine.token_id}
        assert {one.token_id for one in described(alice, "nobody")} == set()
        answer = alice.ask(DESCRIBE, 3, {"owners": []})
        assert (answer.error_code, list(answer.tokens)) == (Code.NONE, [])
        for one in (bobs, other):
            assert expire(bob, one.hmac).error_code == Code.NONE


@pytest.mark.parametrize(("user", "sees"), [("carol", True), ("bob", False)])
def test_it_is_the_owner_whose_tokens_may_be_seen_and_not_who_asked_for_them(
    node: LiveNode, alice: RawClient, user: str, sees: bool
) -> None:
    with known(node, "bob") as bob:
        made = create(bob, **of("carol"))
        allow(node, AclResource.USER, f"User:{user}", AclOperation.DESCRIBE_TOKENS)
        assert [one.token_id for one in described(alice)] == [made.token_id] * sees


def test_kinds_of_principals_and_too_many_renewers_are_refused(alice: RawClient) -> None:
    for wrong in (
        {"renewers": users("bob", kind="Group")},
        {"owner_principal_type": "Group", "owner_principal_name": "bob"},
    ):
        assert create(alice, **wrong).error_code == Code.INVALID_PRINCIPAL_TYPE
    many = users(*(f"u{at}" for at in range(RENEWERS_MAX + 1)))
    assert create(alice, renewers=many).error_code == Code.INVALID_REQUEST
    assert create(alice, renewers=users("")).error_code == Code.INVALID_REQUEST
    assert not described(alice)


def test_no_secret_is_logged(
    node: LiveNode, alice: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = create(alice)
    with closing(node.connect()) as client:
        log_in(client, made.token_id, made.hmac[::-1])
    assert f"token '{made.token_id}'" in caplog.text
    for secret in (SECRET, password_of(made.hmac), made.hmac.hex(), repr(made.hmac)):
        assert secret not in caplog.text
    kept = repr(node.broker.metadata.configuration.tokens) + repr(node.front.token_secrets())
    assert made.hmac.hex() not in kept
    assert repr(made.hmac) not in kept
    assert SECRET not in kept


def test_who_is_not_known_may_not_ask(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    tokens = f"security.delegation_token_secret_file={secret_file(tmp_path)}"
    with (
        running_node(tmp_path / "data", tokens) as node,
        closing(node.connect()) as client,
    ):
        made = create(client)
        assert made.error_code == REFUSED
        assert not node.broker.metadata.configuration.tokens


def test_without_a_secret_there_are_no_tokens(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    off = Code.DELEGATION_TOKEN_AUTH_DISABLED
    with running_node(tmp_path / "data", *secured(tmp_path)) as node, known(node, "alice") as alice:
        assert create(alice).error_code == off
        assert renew(alice, b"x").error_code == off
        assert expire(alice, b"x").error_code == off
        assert alice.ask(DESCRIBE, 3, {"owners": None}).error_code == off


def test_tokens_are_there_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    tokens = f"security.delegation_token_secret_file={secret_file(tmp_path)}"
    with (
        running_node(tmp_path / "data", *secured(tmp_path, tokens)) as node,
        known(node, "alice") as alice,
    ):
        made = create(alice, renewers=users("bob"))
    with (
        running_node(tmp_path / "data", *secured(tmp_path, tokens)) as node,
        closing(node.connect()) as client,
        known(node, "bob") as bob,
    ):
        assert log_in(client, made.token_id, made.hmac).error_code == Code.NONE
        assert renew(bob, made.hmac).error_code == Code.NONE


def test_tokens_wait_for_their_level_and_keep_it(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    tokens = f"security.delegation_token_secret_file={secret_file(tmp_path)}"
    with (
        running_node(tmp_path / "data", *secured(tmp_path, tokens)) as node,
        known(node, "alice") as alice,
    ):
        set_level(node, TOKENS_LEVEL - 1, is_lowering=True)
        assert create(alice).error_code == Code.UNSUPPORTED_VERSION
        assert renew(alice, b"x").error_code == Code.DELEGATION_TOKEN_NOT_FOUND
        set_level(node, TOKENS_LEVEL)
        made = create(alice)
        assert made.error_code == Code.NONE
        with pytest.raises(FeatureLevelRefused, match="1 delegation tokens"):
            set_level(node, TOKENS_LEVEL - 1, is_lowering=True)
        expire(alice, made.hmac)
        set_level(node, TOKENS_LEVEL - 1, is_lowering=True)


def set_level(node: LiveNode, level: int, *, is_lowering: bool = False) -> None:
    brokers = node.broker.metadata.brokers.items()
    node.submit(
        ChangeFeatureLevel(
            feature=METADATA,
            level=level,
            is_lowering=is_lowering,
            checked_brokers=tuple((key, one.broker_epoch) for key, one in brokers),
        )
    )


def has_secrets(node: LiveNode, count: int) -> bool:
    found = node.front.token_secrets()
    return found is not None and found.tag != OLD_TAG and len(found.secrets) == count


def test_another_secret_ends_tokens_without_a_restart(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    path = secret_file(tmp_path)
    tokens = f"security.delegation_token_secret_file={path}"
    with (
        running_node(tmp_path / "data", *secured(tmp_path, tokens)) as node,
        known(node, "alice") as alice,
    ):
        made, other = create(alice), "another secret, which also has 32 characters"
        for text, is_good in ((f"{other}\n{SECRET}\n", True), (f"{other}\n", False)):
            path.write_text(text)
            assert node.until(partial(has_secrets, node, len(text.splitlines())))
            with closing(node.connect()) as client:
                answer = log_in(client, made.token_id, made.hmac)
            assert (answer.error_code == Code.NONE) is is_good
            assert (renew(alice, made.hmac).error_code == Code.NONE) is is_good
            (told,) = described(alice)[:1]
            assert told.hmac == (made.hmac if is_good else b"")
        newer = create(alice)
        with closing(node.connect()) as client:
            assert log_in(client, newer.token_id, newer.hmac).error_code == Code.NONE
