"""Gives a broker the authoriser that its settings ask for."""

from penstock.access.authoriser import AclAuthoriser
from penstock.access.config import AccessConfig, AuthoriserKind
from penstock.broker.broker import Broker
from penstock.controller.metadata.image import ClusterDelta


def authorise(broker: Broker, config: AccessConfig) -> None:
    """Let the rules of the image decide, from the next request on; off: everything is permitted.

    To be called before the image has its first rule: the authoriser follows the changes.
    """
    if config.authorizer is AuthoriserKind.OFF:
        return
    assert not broker.metadata.configuration.acls
    authoriser = AclAuthoriser(config)

    def follow(delta: ClusterDelta) -> None:
        if delta.added_acls or delta.removed_acls:
            authoriser.change(
                [(acl.acl_id, acl.rule) for acl in delta.added_acls],
                [(acl.acl_id, acl.rule) for acl in delta.removed_acls],
            )

    broker.metadata.subscribe(follow)
    broker.authoriser = authoriser
