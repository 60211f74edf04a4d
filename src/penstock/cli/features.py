"""`penstock cluster features|upgrade|downgrade`: the levels of the cluster's features.

These commands belong to `penstock cluster` (cli/cluster.py).
"""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.base.ids import RequestId
from penstock.cli.connect import CommandFailed
from penstock.cli.operator import (
    DATA_DEFAULT,
    ConfigOption,
    DataOption,
    cluster_settings,
    operate,
)
from penstock.cli.output import Output, OutputOption, print_json, print_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.settings.settings import NodeSettings

LEVEL_MAX = (1 << 16) - 1
UNSAID = 0
"""In the message to the controllers, for the newest level or the next lower one."""
LevelOption = Annotated[
    int | None, typer.Option(min=1, max=LEVEL_MAX, help="Wanted level.", show_default=False)
]
FeatureOption = Annotated[
    str, typer.Option(help="A feature of `penstock cluster features`.", show_default=False)
]
FEATURE_COLUMNS = ("feature", "level", "lowest", "highest")
PROCESS_COLUMNS = ("id", "is_broker", "is_controller", "is_heard", "feature", "lowest", "highest")


def features(
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the level of each feature, and the levels that each process supports."""
    document = _document(cluster_settings(config, data))
    if output is Output.JSON:
        print_json(document)
        return
    print_rows(document["features"], FEATURE_COLUMNS, output)
    print()
    print_rows(document["processes"], PROCESS_COLUMNS, output)


def upgrade(
    feature: FeatureOption = "",
    level: LevelOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Raise the level of a feature, once every process runs a release that has it.

    Without --feature: that of the metadata, and without --level those of all features after it.
    Without --level: to the newest level of the active controller's release. Earlier releases can
    not be started while the metadata is at a level that they do not read.
    """
    from penstock.controller.metadata.levels import METADATA

    settings = cluster_settings(config, data)
    _change(settings, feature or METADATA, level, is_lowering=False)
    if feature or level is not None:
        return
    for one in _document(settings)["features"]:
        if one["level"] < one["highest"]:
            _change(settings, one["feature"], level, is_lowering=False)


def downgrade(
    feature: FeatureOption = "",
    level: LevelOption = None,
    config: ConfigOption = None,
    data: DataOption = DATA_DEFAULT,
) -> None:
    """Lower the level of a feature by one, or to --level, so that an earlier release can run.

    Without --feature: that of the metadata. It is refused while the metadata has anything that the
    lower level can not hold; features that need a higher one go back to their first level.
    """
    from penstock.controller.metadata.levels import METADATA

    _change(cluster_settings(config, data), feature or METADATA, level, is_lowering=True)


def _change(
    settings: "NodeSettings", feature: str, level: int | None, *, is_lowering: bool
) -> None:
    from penstock.runtime.session.messages import ChangeFeature

    def make(request_id: RequestId) -> ChangeFeature:
        return ChangeFeature(
            request_id=request_id, feature=feature, level=level or UNSAID, is_lowering=is_lowering
        )

    print(_operate(settings, make))


def _document(settings: "NodeSettings") -> dict[str, Any]:
    from penstock.runtime.session.messages import FeaturesRequest

    found: dict[str, Any] = json.loads(
        _operate(settings, lambda number: FeaturesRequest(request_id=number))
    )
    return found


def _operate(settings: "NodeSettings", make: "Callable[[RequestId], Any]") -> str:
    """Send the command; a controller of an earlier release does not know it and disconnects."""
    from penstock.runtime.session.link import AnswerLost

    try:
        return operate(settings, make)
    except AnswerLost as error:
        raise CommandFailed(
            f"the active controller has not answered ({error}): if it runs an earlier release,"
            " which knows no levels, make another one active (penstock controller transfer)"
        ) from error
