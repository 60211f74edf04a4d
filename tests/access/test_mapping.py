"""Rules that make short names of subjects; the examples are those of KIP-371 and Kafka's tests."""

import pytest

from penstock.access.errors import NoPrincipal
from penstock.access.mapping import parse_rules, short_name
from penstock.base.errors import ConfigError

RULES = ", ".join(
    [
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L",
        "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U",
    ]
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("CN=kafka-server1,OU=ServiceUsers,O=KAFKA,C=DE", "kafka-server1"),
        ("CN=Adam,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adam@admin"),
        ("cn=analytics,ou=Dev,dc=corp,dc=example", "ANALYTICS@DEV"),
        ("O=X,CN=test.1,C=DE", "TEST.1"),
    ],
)
def test_the_first_rule_that_matches_counts(name: str, short: str) -> None:
    assert short_name(name, parse_rules(RULES)) == short


def test_default_leaves_the_name_as_it_is() -> None:
    rules = parse_rules("RULE:^CN=(.*)$/$1/,DEFAULT")
    assert short_name("OU=x,O=y", rules) == "OU=x,O=y"
    assert short_name("OU=x", ()) == "OU=x"


def test_a_name_that_no_rule_matches_is_nobodys() -> None:
    with pytest.raises(NoPrincipal):
        short_name("OU=x", parse_rules("RULE:^CN=(.*)$/$1/"))


def test_a_slash_and_a_dollar_may_be_escaped() -> None:
    rules = parse_rules(r"RULE:^CN=(\w+)\/(\w+)$/$2\$\/$1/")
    assert short_name("CN=a/b", rules) == "b$/a"


def test_a_pattern_matches_the_whole_name() -> None:
    with pytest.raises(NoPrincipal):
        short_name("CN=a,O=b", parse_rules("RULE:CN=(a)/$1/"))


@pytest.mark.parametrize(
    "text", ["RULES:x/y/", "RULE:x", "RULE:^(a$/x/", "RULE:a/$1/", "DEFAULTS", "RULE:a/b/X"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_rules(text)
