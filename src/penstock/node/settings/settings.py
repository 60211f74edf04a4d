"""NodeSettings: every room's settings in one object, read from file, environment and flags.

Order, later wins: the defaults in the dataclasses, the TOML file, `PENSTOCK__SECTION__KEY` in the
environment, `--set section.key=value`. A section is a field of NodeSettings and its keys are the
fields of that room's dataclass, so there is one name for a setting everywhere. pydantic checks the
tree against the dataclasses; the rooms themselves know nothing of pydantic.

This is the only place that decides where settings come from; nothing else reads the environment.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter, ValidationError

from penstock.access.config import AccessConfig
from penstock.base.endpoints import FIRST_LISTENER, LISTENERS_MAX, PAGES_LISTENER, NamedEndpoint
from penstock.base.errors import ConfigError
from penstock.broker.config import BrokerConfig
from penstock.controller.config import ControllerConfig
from penstock.controller.topic_config.table import TopicSettings
from penstock.groups.config import GroupConfig
from penstock.grpc.config import LISTENER_NAME as GRPC
from penstock.grpc.config import GrpcConfig
from penstock.net.limits import NetLimits
from penstock.node.settings.cluster_config import ClusterConfig
from penstock.node.settings.config import NodeConfig
from penstock.node.settings.security_config import SecurityConfig, SecurityProtocol
from penstock.node.settings.sources import (
    Schema,
    SettingsTree,
    read_environment,
    read_overrides,
    read_toml,
)
from penstock.remoting.config import LISTENER_NAME, RemotingConfig
from penstock.replication.config import ReplicationConfig
from penstock.runtime.raft.config import RaftLogConfig
from penstock.shares.config import ShareConfig
from penstock.storage.config import LogConfig
from penstock.tier.config import TierConfig
from penstock.transactions.config import TransactionConfig

_NOT_OF_SIGNED = ("sasl_", "connections_max_reauth_ms")
"""What those who sign have not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """All settings of one node process; a field is a section of the settings file."""

    node: NodeConfig = field(default_factory=NodeConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    broker: BrokerConfig = field(default_factory=BrokerConfig)
    access: AccessConfig = field(default_factory=AccessConfig)
    log: LogConfig = field(default_factory=LogConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    groups: GroupConfig = field(default_factory=GroupConfig)
    transactions: TransactionConfig = field(default_factory=TransactionConfig)
    shares: ShareConfig = field(default_factory=ShareConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    raft: RaftLogConfig = field(default_factory=RaftLogConfig)
    topic: TopicSettings = field(default_factory=TopicSettings)
    net: NetLimits = field(default_factory=NetLimits)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    remoting: RemotingConfig = field(default_factory=RemotingConfig)
    grpc: GrpcConfig = field(default_factory=GrpcConfig)
    tier: TierConfig = field(default_factory=TierConfig)

    def __post_init__(self) -> None:
        """Check what sections need of each other. Raises ConfigError."""
        if self.tier.url and not self.log.moves:
            raise ConfigError(
                "tier.url: what is copied are the files of the second level, and this node makes"
                " none; set log.level0_ms or log.level0_bytes"
            )
        for name, config in ((LISTENER_NAME, self.remoting), (GRPC, self.grpc)):
            self._check_port(name, config)
        self._check_listeners()

    def _check_listeners(self) -> None:
        """Check that listeners have what their protocols need."""
        names = {FIRST_LISTENER, *(one.name for one in self.bound_listeners())}
        protocols = self.security.protocols()
        _check_listeners_of_net(self.net, names)
        names |= self._check_pages(names, protocols)
        mentioned = {*protocols, *self.security.open_listeners}
        mentioned |= {one.partition(".")[0] for one in self.security.listeners}
        if unknown := mentioned - names:
            raise ConfigError(
                f"security names listener {min(unknown)}, which is not there: the node has"
                f" {', '.join(sorted(names))}"
            )
        for name, protocol in protocols.items():
            self.security.of_listener(name).check_listener(name, protocol)
        if self.grpc.takes_tls:
            self._check_takes_tls(protocols.get(GRPC, SecurityProtocol.PLAINTEXT))

    def _check_takes_tls(self, protocol: SecurityProtocol) -> None:
        """Check that what takes TLS as well is there, and open. Raises ConfigError."""
        if not self.grpc.port:
            raise ConfigError("grpc.takes_tls: there is no port: set grpc.port, or leave it out")
        if protocol is not SecurityProtocol.PLAINTEXT:
            raise ConfigError(
                f"grpc.takes_tls is for an open port, and listener {GRPC} is {protocol}: leave out"
                " one of the two"
            )
        security = self.security.of_listener(GRPC)
        if bool(security.ssl_certificate_file) is not bool(security.ssl_key_file):
            raise ConfigError(
                "grpc.takes_tls: give both of security.ssl_certificate_file and"
                " security.ssl_key_file, or neither"
            )

    def _check_pages(self, names: set[str], protocols: Mapping[str, SecurityProtocol]) -> set[str]:
        """Return the name of the HTTP port, if there is one. Raises ConfigError."""
        if not self.node.metrics_port:
            return set()
        if PAGES_LISTENER in names:
            raise ConfigError(
                f"node.listeners: {PAGES_LISTENER} is the port of node.metrics_port: give the other"
                " one another name"
            )
        protocol = protocols.get(PAGES_LISTENER, SecurityProtocol.PLAINTEXT)
        if protocol.has_sasl:
            raise ConfigError(
                f"listener {PAGES_LISTENER} is {protocol}: readers of its pages can not use SASL;"
                f" make it SSL, with {PAGES_LISTENER}.ssl_client_auth=requested"
            )
        return {PAGES_LISTENER}

    def bound_listeners(self) -> tuple[NamedEndpoint, ...]:
        """Return the listeners for clients, of either protocol, beside the first, as bound."""
        return *self.node.named_listeners(), *self.remoting.bound(), *self.grpc.bound()

    def told_listeners(self) -> tuple[NamedEndpoint, ...]:
        """Return their advertised addresses."""
        return *self.node.told_listeners(), *self.remoting.told(), *self.grpc.told()

    def _check_port(self, name: str, config: RemotingConfig | GrpcConfig) -> None:
        """Check the port for a kind of RocketMQ's clients against others. Raises ConfigError."""
        if not config.port:
            return
        node = self.node
        named = node.named_listeners()
        if any(one.name == name for one in named):
            raise ConfigError(
                f"node.listeners: {name} is the listener of {name}.port: give the other"
                " one another name"
            )
        others = {one.port for one in (*named, *self.bound_listeners()) if one.name != name}
        if config.port in {node.port, node.metrics_port, *others}:
            raise ConfigError(f"{name}.port is that of another listener: give it its own")
        if len(self.bound_listeners()) > LISTENERS_MAX:
            raise ConfigError(
                f"node.listeners names {len(named)} listeners: {LISTENERS_MAX} is the most, and"
                f" {name}.port is one of them"
            )
        self._check_signed(name)

    def _check_signed(self, name: str) -> None:
        """Check that no mechanism of SASL is set for those that sign. Raises ConfigError."""
        for one in self.security.listeners:
            if one.startswith(tuple(f"{name}.{setting}" for setting in _NOT_OF_SIGNED)):
                raise ConfigError(
                    f"security.listeners: {one!r} has no effect: clients of {name} sign"
                    " by the access keys of security.remoting_access_keys_file"
                )


def _check_listeners_of_net(net: NetLimits, names: set[str]) -> None:
    """Raise ConfigError for a limit of a listener that is not there."""
    known = ", ".join(sorted(names))
    unknown = {one.partition(".")[0].lower() for one in net.listeners}
    unknown -= {name.lower() for name in names}
    if unknown:
        raise ConfigError(
            f"net.listeners names {min(unknown)}, which is not there: the node has {known}"
        )
    if net.protected_listener and net.protected_listener not in names:
        raise ConfigError(
            f"net.protected_listener is {net.protected_listener}, which is not there: the node has"
            f" {known}"
        )


def load_settings(
    path: Path | None,
    *,
    environment: Mapping[str, str],
    overrides: Sequence[str] = (),
) -> NodeSettings:
    """Read all sources and check them. Raises ConfigError with one line that says what to change.

    Relative paths start at the directory of the file, or at the working directory where there is
    no file.
    """
    tree = SettingsTree(schema=settings_schema())
    if path is not None:
        read_toml(tree, path)
    read_environment(tree, environment)
    read_overrides(tree, overrides)
    settings = _check(tree)
    base = path.parent if path is not None else Path()
    places = tuple(str((base / place).absolute()) for place in settings.node.data_directories)
    return replace(
        settings,
        node=replace(settings.node, data_directories=places),
        cluster=replace(settings.cluster, **_absolute_files(settings.cluster, base)),
        tier=replace(settings.tier, **_absolute_files(settings.tier, base)),
        security=replace(
            settings.security,
            **_absolute_files(settings.security, base),
            listeners=tuple(_with_absolute_file(one, base) for one in settings.security.listeners),
        ),
    )


def _with_absolute_file(text: str, base: Path) -> str:
    """Return a setting of one listener with an absolute path where it names a file."""
    name, _, path = text.partition("=")
    is_file = name.endswith("_file") and path
    return f"{name}={(base / path).absolute()}" if is_file else text


def _absolute_files(
    section: ClusterConfig | SecurityConfig | TierConfig, base: Path
) -> dict[str, Any]:
    """Return the settings that name files, as absolute paths; what is not given stays empty."""
    names = [item.name for item in fields(section) if item.name.endswith("_file")]
    given = {name: getattr(section, name) for name in names}
    return {name: str((base / path).absolute()) for name, path in given.items() if path}


def check_interpreter() -> None:
    """Refuse `python -O`: it would remove the assertions the node's safety rests on."""
    if sys.flags.optimize:
        raise ConfigError(
            "Python runs with -O or PYTHONOPTIMIZE, which removes safety checks: unset it"
        )


@cache
def settings_schema() -> Schema:
    """Return the names of all settings: section -> key -> whether it is a list."""
    return {
        section: {name: _is_list(hint) for name, hint in setting_types(config).items()}
        for section, config in section_types().items()
    }


def section_types() -> dict[str, type[Any]]:
    """Return section name -> the dataclass that declares its keys."""
    hints = get_type_hints(NodeSettings)
    return {item.name: hints[item.name] for item in fields(NodeSettings)}


def setting_types(config: type[Any]) -> dict[str, object]:
    """Return the keys of a settings dataclass with their annotated types, in order."""
    hints = get_type_hints(config, include_extras=True)
    return {item.name: hints[item.name] for item in fields(config) if item.init}


def _is_list(hint: object) -> bool:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    return get_origin(hint) in {tuple, list, frozenset}


@cache
def _adapter() -> TypeAdapter[NodeSettings]:
    """Return what checks all settings; to make it takes longer than to read them."""
    return TypeAdapter(NodeSettings)


def _check(tree: SettingsTree) -> NodeSettings:
    try:
        return _adapter().validate_python(tree.values)
    except ValidationError as error:
        raise ConfigError(_one_line(error, tree)) from error


def _one_line(error: ValidationError, tree: SettingsTree) -> str:
    first = error.errors(include_url=False)[0]
    place = [str(part) for part in first["loc"]]
    section, key = (*place, "", "")[:2]
    source = tree.sources.get((section, key), "settings")
    message = first["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    name = ".".join(part for part in (section, key) if part)
    given = f" (it is {first['input']!r})" if key else ""
    return f"{source}: {name}: {message}{given}" if name else f"{source}: {message}"
