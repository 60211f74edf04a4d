"""Spark's own Kafka connector in a closed node: each way to log in, and each refusal.

What Spark and Kafka's clients wait for has bounds here, and a refusal names its cause: had the
connector only given up after a time, it would say TimeoutException.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.access.certificates import Authority
from tests.access.provider import Provider
from tests.compat.closed_node import PASSWORD, ClosedNode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.compat,
    pytest.mark.timeout(300),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl"),
]
COUNT = 20
SECURITY = "org.apache.kafka.common.security"
SCRAM = f"{SECURITY}.scram.ScramLoginModule"
BOUNDS = {
    "fetchOffset.numRetries": "1",
    "kafka.default.api.timeout.ms": "20000",
    "kafka.max.block.ms": "20000",
    "kafka.delivery.timeout.ms": "20000",
    "kafka.request.timeout.ms": "10000",
}
"""Of what the connector and its clients try again: each test ends well within its time."""
BEARERS = ("good-bearer", "strange-bearer", "expired-bearer")
"""Files of tokens, which Java reads where they are named before."""
Options = dict[str, str]


class Closed(ClosedNode):
    """See there; and options of the connector."""

    def login(self, mechanism: str, jaas: str) -> Options:
        return {
            "kafka.bootstrap.servers": f"127.0.0.1:{self.sasl}",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": self.authority.file,
            "kafka.sasl.mechanism": mechanism,
            "kafka.sasl.jaas.config": jaas,
        }

    def by_password(self, mechanism: str, password: str = PASSWORD) -> Options:
        module = f"{SECURITY}.plain.PlainLoginModule" if mechanism == "PLAIN" else SCRAM
        jaas = f'{module} required username="alice" password="{password}";'
        return self.login(mechanism, jaas)

    def by_bearer_token(self, token: str, name: str = BEARERS[0]) -> Options:
        """Log in by a token of a file; Java has one login for all clients with the same file."""
        package = f"{SECURITY}.oauthbearer"
        path = self.directory / name
        path.write_text(token)
        return self.login("OAUTHBEARER", f"{package}.OAuthBearerLoginModule required;") | {
            "kafka.sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
            "kafka.sasl.oauthbearer.token.endpoint.url": f"file://{path}",
        }

    def by_delegation_token(self, token_id: str, hmac: str) -> Options:
        """Log in as Spark's `KafkaTokenUtil` does where it has a token."""
        jaas = f'{SCRAM} required tokenauth="true" username="{token_id}" password="{hmac}";'
        return self.login("SCRAM-SHA-512", jaas)

    def by_certificate(self, authority: Authority, name: str, *, days: int = 2) -> Options:
        certificate, key = authority.issue(name, "/CN=job", days=days)
        both = self.directory / f"{name}.both"
        both.touch(mode=0o600)
        both.write_text(Path(key).read_text() + Path(certificate).read_text())
        return self.by_tls() | {
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.location": str(both),
        }

    def by_tls(self) -> Options:
        return {
            "kafka.bootstrap.servers": f"127.0.0.1:{self.mutual}",
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": self.authority.file,
        }


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory, spark: "SparkSession") -> Iterator[Closed]:
    closed = Closed(tmp_path_factory.mktemp("closed"))
    allowed = ",".join(f"file://{closed.directory / name}" for name in BEARERS)
    system = spark._jvm.java.lang.System  # type: ignore[union-attr]
    system.setProperty("org.apache.kafka.sasl.oauthbearer.allowed.urls", allowed)
    with closed.node:
        yield closed


def write(spark: "SparkSession", options: Options, topic: str) -> None:
    frame = spark.range(COUNT).selectExpr("concat('w', id) value").coalesce(1)
    frame.write.format("kafka").options(**options, **BOUNDS, topic=topic).save()


def read(spark: "SparkSession", options: Options, topic: str) -> set[str]:
    reader = spark.read.format("kafka").option("subscribe", topic)
    frame = reader.options(**options, **BOUNDS).load().selectExpr("string(value) v")
    return {row.v for row in frame.collect()}


LOGINS: dict[str, Callable[[Closed], Options]] = {
    "plain": lambda closed: closed.by_password("PLAIN"),
    "scram-256": lambda closed: closed.by_password("SCRAM-SHA-256"),
    "scram-512": lambda closed: closed.by_password("SCRAM-SHA-512"),
    "bearer": lambda closed: closed.by_bearer_token(closed.provider.token()),
    "delegation": lambda closed: closed.by_delegation_token(*closed.token()),
    "certificate": lambda closed: closed.by_certificate(closed.authority, "good"),
}


@pytest.mark.parametrize("name", LOGINS)
def test_the_connector_writes_and_reads_by_each_mechanism(
    spark: "SparkSession", closed: Closed, name: str
) -> None:
    topic, options = closed.topic(f"closed-{name}"), LOGINS[name](closed)
    write(spark, options, topic)
    assert read(spark, options, topic) == {f"w{number}" for number in range(COUNT)}


class Refusal(NamedTuple):
    """Options that let nobody in, and what the connector says of it."""

    options: Callable[[Closed], Options]
    says: str


def _ended_token(closed: Closed) -> Options:
    token_id, hmac = closed.token()
    closed.tokens("expire", token_id)
    return closed.by_delegation_token(token_id, hmac)


USER = r"SaslAuthenticationException: Authentication failed: user, password or mechanism"
TOKEN = r"SaslAuthenticationException: Authentication failed: the token is not valid"
PEER = r"SslAuthenticationException|SSLHandshakeException|SSLException"
REFUSALS = {
    "plain-wrong": Refusal(lambda closed: closed.by_password("PLAIN", "wrong"), USER),
    "scram-256-wrong": Refusal(lambda closed: closed.by_password("SCRAM-SHA-256", "wrong"), USER),
    "scram-512-wrong": Refusal(lambda closed: closed.by_password("SCRAM-SHA-512", "wrong"), USER),
    "bearer-wrong": Refusal(
        lambda closed: closed.by_bearer_token(Provider().token(), BEARERS[1]), TOKEN
    ),
    "bearer-expired": Refusal(
        lambda closed: closed.by_bearer_token(
            closed.provider.token(exp=int(time.time()) - 60), BEARERS[2]
        ),
        TOKEN,
    ),
    "delegation-wrong": Refusal(
        lambda closed: closed.by_delegation_token(closed.token()[0], "AAAA"), USER
    ),
    "delegation-expired": Refusal(_ended_token, USER),
    "certificate-none": Refusal(Closed.by_tls, PEER),
    "certificate-wrong": Refusal(
        lambda closed: closed.by_certificate(closed.stranger, "strange"), PEER
    ),
    "certificate-expired": Refusal(
        lambda closed: closed.by_certificate(closed.authority, "expired", days=-1), PEER
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_the_connector_is_told_why_it_may_not_come_in(
    spark: "SparkSession", closed: Closed, name: str
) -> None:
    topic, refusal = closed.topic(f"refused-{name}"), REFUSALS[name]
    options = refusal.options(closed)
    for act in (read, write):
        with pytest.raises(Exception, match=refusal.says) as refused:
            act(spark, options, topic)
        assert "TimeoutException" not in str(refused.value)
    assert read(spark, LOGINS["scram-512"](closed), topic) == set()
