"""Settings of access: off by default, and what would lock everybody out is refused."""

import pytest

from penstock.access.config import AuthoriserKind
from penstock.base.errors import ConfigError
from penstock.node.settings.settings import load_settings


def loaded(*overrides: str) -> object:
    return load_settings(None, environment={}, overrides=overrides).access


def test_everything_is_open_by_default() -> None:
    settings = load_settings(None, environment={}).access
    assert (settings.authorizer, settings.super_users) == (AuthoriserKind.OFF, ())
    assert not settings.allow_everyone_if_no_acl_found


def test_an_authoriser_has_super_users() -> None:
    users = "access.super_users=User:admin,User:CN=ops"
    settings = load_settings(None, environment={}, overrides=("access.authorizer=acl", users))
    assert settings.access.super_users == ("User:admin", "User:CN=ops")
    listed = 'access.super_users=["User:CN=ops,O=us", "User:admin"]'
    settings = load_settings(None, environment={}, overrides=("access.authorizer=acl", listed))
    assert settings.access.super_users == ("User:CN=ops,O=us", "User:admin")


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (["access.authorizer=acl"], "without one nobody could add the first rule"),
        (["access.authorizer=ranger"], "access.authorizer"),
        (["access.super_users=admin"], "'admin' is no principal: write User:NAME"),
        (["access.super_users=User:"], "'User:' is no principal"),
        (["access.super_users=[User:admin]"], "is no principal: write User:NAME"),
        (['access.super_users=["User:admin"'], "not a valid TOML list"),
    ],
)
def test_what_is_wrong_is_said(overrides: list[str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        loaded(*overrides)
