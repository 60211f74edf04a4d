"""The secret behind the salts of unknown users, chosen with the first who can log in by SCRAM.

Source: ADR 0206.
"""

from penstock.controller.commands.context import CommandContext
from penstock.controller.metadata.login_records import UNKNOWN_USERS, LoginSecretChosen


def chosen_secret(context: CommandContext) -> tuple[LoginSecretChosen, ...]:
    """Return the record that chooses the secret, where there is none yet and may be one."""
    image = context.image
    if image.configuration.login_secrets or image.metadata_level < LoginSecretChosen.LEVEL:
        return ()
    secret = bytes(context.new_topic_id()) + bytes(context.new_topic_id())
    return (LoginSecretChosen(key=UNKNOWN_USERS, secret=secret),)
