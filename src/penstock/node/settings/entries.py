"""The node's settings as DescribeConfigs and operators see them: dotted name, value, meaning."""

from dataclasses import fields

from penstock.node.settings.documents import field_documents
from penstock.node.settings.settings import NodeSettings


def settings_entries(settings: NodeSettings) -> list[tuple[str, str, str]]:
    """Return (name, value, documentation) of every setting, in the order of the sections."""
    return [
        (
            f"{section.name}.{item.name}",
            setting_text(getattr(values, item.name)),
            " ".join(documents.get(item.name, "").split()),
        )
        for section in fields(settings)
        for values in (getattr(settings, section.name),)
        for documents in (field_documents(type(values)),)
        for item in fields(values)
    ]


def setting_text(value: object) -> str:
    """Return a value as it would stand in a settings file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)
