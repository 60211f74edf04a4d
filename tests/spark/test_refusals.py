"""What a job says when brokers refuse it, and which access the tasks of a worker share."""

from pathlib import Path

import pytest

from penstock.client.errors import (
    AuthenticationFailed,
    BrokerError,
    CertificateRefused,
    ClosedByBroker,
    FileUnusable,
    NoBrokerReachable,
    RequestTimedOut,
    WrongProtocol,
)
from penstock.client.security import ClientSecurity
from penstock.protocol.error_codes import ErrorCode
from penstock.spark.broker_access import shared_access
from penstock.spark.errors import NotLetIn, OptionError
from penstock.spark.security import READS, SecurityOptions, refusals_told, who

SASL = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password.file": "/p",
}


def options(**settings: str) -> SecurityOptions:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return SecurityOptions(settings=tuple(sorted(given.items())))


def after_end(error: Exception) -> Exception:
    """An error that comes of a connection which the broker ended without an answer."""
    error.__cause__ = ClosedByBroker("b:1")
    return error


LOGIN = SecurityOptions(settings=tuple(SASL.items()))
TLS = options(security_protocol="SSL")
OPEN = SecurityOptions()


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (LOGIN, AuthenticationFailed("b:1", "no."), "b:1 .* no; .*sasl.username=alice, .*file=/p$"),
        (TLS, AuthenticationFailed("b:1", "no"), "; it was tried with security.protocol=SSL$"),
        (TLS, CertificateRefused("b:1", "no"), "the system's authorities; ssl.ca.location"),
        (OPEN, WrongProtocol("b:1", "SSL", "has no TLS"), "b:1 has no TLS.*another security.pro"),
        (OPEN, after_end(NoBrokerReachable("b:1", "no")), "options security.protocol and"),
        (TLS, after_end(RequestTimedOut("x", 1)), "see the options .*sasl.mechanism"),
        (
            LOGIN,
            BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic t"),
            "^User:alice is not permitted: topic t .*; reading needs Read on the topic$",
        ),
    ],
)
def test_a_refusal_is_told_with_the_broker_and_what_to_change(
    given: SecurityOptions, error: Exception, words: str
) -> None:
    with pytest.raises(NotLetIn, match=words), refusals_told(given, READS):
        raise error


@pytest.mark.parametrize(
    ("given", "error"),
    [
        (LOGIN, after_end(NoBrokerReachable("b:1", "no"))),
        (OPEN, NoBrokerReachable("b:1", "refused")),
        (LOGIN, BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, "topic t")),
    ],
)
def test_other_errors_are_told_as_they_are(given: SecurityOptions, error: Exception) -> None:
    with pytest.raises(type(error)) as told, refusals_told(given, READS):
        raise error
    assert told.value is error


def test_a_file_that_an_executor_lacks_is_told_with_where_it_has_to_be() -> None:
    with (
        pytest.raises(OptionError, match=r"^sasl\.password\.file /p .*every executor"),
        refusals_told(LOGIN, READS),
    ):
        raise FileUnusable("sasl.password.file /p can not be read")


def test_a_refusal_of_a_job_with_a_file_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    text = {name: value for name, value in SASL.items() if name != "sasl.password.file"}
    text["sasl.password"] = "hunter2"
    path.write_text("".join(f"{name}={value}\n" for name, value in text.items()))
    with (
        pytest.raises(NotLetIn, match=f"sasl.username=alice in {path}$"),
        refusals_told(SecurityOptions(client_config=str(path)), READS),
    ):
        raise AuthenticationFailed("b:1", "no")


def test_the_principal_is_named_as_far_as_the_client_knows_it() -> None:
    assert who(OPEN.load()) == who(TLS.load()) == "User:ANONYMOUS"
    assert who(LOGIN.load()) == "User:alice"
    scram = SASL | {"sasl.mechanism": "SCRAM-SHA-256", "sasl.tokenauth": "true"}
    token = SecurityOptions(settings=tuple(scram.items()))
    assert who(token.load()) == "the owner of delegation token alice"
    bearer = ClientSecurity(protocol="SASL_SSL", mechanism="OAUTHBEARER", token_file="/t")
    assert who(bearer) == "the user of the token"
    mutual = ClientSecurity(protocol="SSL", certificate_file="/c", key_file="/k")
    assert who(mutual) == "the user of certificate /c"


def test_tasks_share_an_access_until_what_they_come_in_by_changes(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    given = SecurityOptions(client_config=str(path))

    def write(password: str) -> None:
        path.write_text(
            "security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\n"
            f"sasl.password={password}\n"
        )

    write("one")
    first = shared_access("h:1", 1.0, given)
    assert shared_access("h:1", 1.0, given) is first
    assert first.cluster.settings.security.password == "one"
    assert shared_access("h:1", 1.0, OPEN) is not first
    write("two")
    second = shared_access("h:1", 1.0, given)
    assert second is not first
    assert second.cluster.settings.security.password == "two"


def test_few_logins_are_kept() -> None:
    first = LOGIN.load()
    for number in range(4):
        options(security_protocol="SSL", ssl_ca_location=f"/{number}").load()
    assert LOGIN.load() is not first
