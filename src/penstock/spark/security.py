"""How the source, the sink and `penstock land` come in where brokers ask who they are.

    options ─► SecurityOptions ─(pickled, to executors)─► load() ─► ClientSecurity, where it is used
               names and paths, no secret                          secrets, read from files there

Either a file as `penstock --client-config` takes it (`clientConfig`), or single settings by the
names that the file has, with or without `kafka.` before them. Options are part of a query's plan,
which Spark shows, logs and sends about: so a secret is never an option, and what is read from its
file is never pickled.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.base.errors import ConfigError
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
from penstock.client.security import (
    NAMES,
    OAUTHBEARER,
    SECRET_NAMES,
    ClientSecurity,
    read_security,
    security_of,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.spark.errors import NotLetIn, OptionError

CLIENT_CONFIG = "clientconfig"
PROTOCOL = "security.protocol"
_PREFIX = "kafka."
OPTION_NAMES = (CLIENT_CONFIG, *NAMES, *(_PREFIX + name for name in NAMES))
_SECRET_OPTIONS = {
    **dict(zip(SECRET_NAMES, (f"{name}.file" for name in SECRET_NAMES), strict=True)),
    "sasl.jaas.config": "sasl.username and sasl.password.file",
    "ssl.key.password": "ssl.key.location, a file that is not encrypted",
    "ssl.keystore.password": "ssl.certificate.location and ssl.key.location (PEM)",
    "ssl.keystore.key": "ssl.key.location",
    "ssl.truststore.password": "ssl.ca.location (PEM)",
}
"""Settings of librdkafka and Java with secrets, and what is to be given in their place."""
_OF_JAVA = {
    "ssl.truststore.location": "ssl.ca.location (PEM)",
    "ssl.truststore.certificates": "ssl.ca.location (PEM)",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location (PEM)",
    "ssl.keystore.certificate.chain": "ssl.certificate.location (PEM)",
}
_PERMISSIONS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
READS = "reading needs Read on the topic"
"""What the source and `penstock land` need."""
WRITES = (
    "writing needs Write on the topic, and exactly once also Write on"
    " transactional-id:penstock-spark-*"
)
EVERYWHERE = "it has to be on the driver and on every executor, at the same path"
_KEPT_MAX = 4
_KEPT: dict[ClientSecurity, ClientSecurity] = {}
"""Of this process: those of an identity provider keep its token for the connections to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecurityOptions:
    """What the options say; it may be shown to everybody. Without any: plain text, nobody."""

    client_config: str = ""
    """A file as `penstock --client-config` takes it, on the driver and on every executor."""
    settings: tuple[tuple[str, str], ...] = ()
    """Single settings, sorted, by the names that the file has; paths are of each machine."""

    def load(self) -> ClientSecurity:
        """Return how this process comes in, with what files have now. Raises OptionError."""
        try:
            if self.client_config:
                found = read_security(Path(self.client_config))
            else:
                found = security_of(dict(self.settings))
        except FileUnusable as error:
            raise OptionError(f"{error}; {EVERYWHERE}") from error
        except ConfigError as error:
            raise OptionError(str(error)) from error
        while found not in _KEPT and len(_KEPT) >= _KEPT_MAX:
            _KEPT.pop(next(iter(_KEPT)))
        return _KEPT.setdefault(found, found)


def security_options(options: Mapping[str, str]) -> SecurityOptions:
    """Return what options of these names say; others are passed over. Raises OptionError."""
    settings: dict[str, str] = {}
    for name in NAMES:
        given = {options[key].strip() for key in (name, _PREFIX + name) if options.get(key)}
        if len(given) > 1:
            raise OptionError(f"give one of {name} and {_PREFIX}{name}")
        if given:
            settings[name] = given.pop()
    client_config = options.get(CLIENT_CONFIG, "").strip()
    if client_config and settings:
        raise OptionError(f"give clientConfig or {next(iter(settings))}, not both")
    if settings and PROTOCOL not in settings:
        raise OptionError(f"{next(iter(settings))} is given without {PROTOCOL}, such as SASL_SSL")
    found = SecurityOptions(client_config=client_config, settings=tuple(sorted(settings.items())))
    found.load()
    return found


def refuse_secrets(options: Mapping[str, str]) -> None:
    """Raise OptionError for an option with a secret, or of Java's, without its value."""
    for option in options:
        name = option.removeprefix(_PREFIX)
        if name in _SECRET_OPTIONS:
            raise OptionError(
                f"option {option}: a secret is not an option, since Spark shows and stores options;"
                f" give {_SECRET_OPTIONS[name]}, or clientConfig"
            )
        if name in _OF_JAVA:
            raise OptionError(f"option {option} is Java's: give {_OF_JAVA[name]}")


def who(security: ClientSecurity) -> str:
    """Return the principal, as far as the client knows it."""
    if security.is_token and security.has_sasl:
        return f"the owner of delegation token {security.user}"
    if security.has_sasl and security.mechanism == OAUTHBEARER:
        return "the user of the token"
    if security.has_sasl:
        return f"User:{security.user}"
    if security.certificate_file:
        return f"the user of certificate {security.certificate_file}"
    return "User:ANONYMOUS"


def _was_closed(error: BaseException | None) -> bool:
    """Whether an error comes of a broker that closed the connection without an answer."""
    while error is not None and not isinstance(error, ClosedByBroker):
        error = error.__cause__
    return error is not None


@contextmanager
def refusals_told(options: SecurityOptions, needs: str) -> Iterator[None]:
    """Raise NotLetIn for what brokers refuse, with the option or the permission that it is about.

    `needs` tells which permissions the caller needs. Raises OptionError for a file that is missing
    here.
    """
    try:
        yield
    except FileUnusable as error:
        raise OptionError(f"{error}; {EVERYWHERE}") from error
    except CertificateRefused as error:
        raise NotLetIn(f"{str(error).rstrip('.')}; {_authority(options)}") from error
    except AuthenticationFailed as error:
        raise NotLetIn(f"{str(error).rstrip('.')}; {_login(options)}") from error
    except WrongProtocol as error:
        raise NotLetIn(f"{error}: give another {PROTOCOL}{_of_file(options)}") from error
    except (NoBrokerReachable, RequestTimedOut) as error:
        if options.load().has_sasl or not _was_closed(error):
            raise
        raise NotLetIn(
            f"{error}; so does a broker that asks clients who they are: see the options {PROTOCOL}"
            f" and sasl.mechanism{_of_file(options)}"
        ) from error
    except BrokerError as error:
        if error.code not in _PERMISSIONS:
            raise
        raise NotLetIn(f"{who(options.load())} is not permitted: {error}; {needs}") from error


def _of_file(options: SecurityOptions) -> str:
    return f" in {options.client_config}" if options.client_config else ""


def _authority(options: SecurityOptions) -> str:
    file = options.load().authority_file
    by = f"ssl.ca.location, {file}" if file else "the system's authorities; ssl.ca.location names"
    return f"it is checked by {by}{'' if file else ' others'}{_of_file(options)}"


def _login(options: SecurityOptions) -> str:
    """Return the settings by which a client has tried to come in."""
    security = options.load()
    names = {
        "sasl.mechanism": security.mechanism,
        "sasl.username": security.user,
        "sasl.password.file": security.password_file,
        "sasl.oauthbearer.token.file": security.token_file,
        "sasl.oauthbearer.client.id": security.client_id,
        "ssl.certificate.location": security.certificate_file,
    }
    tried = ", ".join(f"{name}={value}" for name, value in names.items() if value)
    return f"it was tried with {tried or f'{PROTOCOL}={security.protocol}'}{_of_file(options)}"
