"""DescribeConfigs (key 32), versions 1 to 4: topics, brokers, groups and client metrics.

A broker tells its own settings, under Penstock's names and under Kafka's where it has the same.

Source: Kafka `ConfigHelper`, KIP-133, KIP-226 (sources, synonyms), KIP-569 (documentation), KIP-714
(client metrics), KIP-848 (groups).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from penstock.base.errors import PlatformError, as_answer
from penstock.broker.access import Operation
from penstock.broker.errors import NotAuthorised
from penstock.broker.turns import SLICE, Pace
from penstock.configs.entry import ConfigEntry
from penstock.controller.commands.topic_names import check_topic_name
from penstock.controller.errors import RefusedCommand
from penstock.controller.metadata.records import ResourceType
from penstock.kafka.answers.admin import config_fields, error_fields, topic_entries
from penstock.kafka.answers.resources import resource_entries
from penstock.kafka.context import RequestContext
from penstock.kafka.gate import config_refusal, topic
from penstock.kafka.request import Reply, Request
from penstock.protocol.api_keys import ApiKey

KEY = ApiKey.DESCRIBE_CONFIGS
VERSIONS = range(1, 5)
SLICED_BY = (("resources",),)
_OPERATION = Operation.DESCRIBE_CONFIGS
RESOURCES_HERE = 5
"""A topic's settings take 200 us, with their documentation."""


def handle(context: RequestContext, request: Request, reply: Reply) -> None:
    """Answer resource by resource."""
    reply({"results": [_result(context, request.body, one) for one in _once(request)]})


def is_much(context: RequestContext, body: Any) -> bool:
    """Whether more is described than a turn may tell; a node has as many settings as ten topics."""
    del context
    return len(body.resources) > RESOURCES_HERE


async def handle_much(context: RequestContext, request: Request) -> Mapping[str, object]:
    """Describe each resource in a turn of its own."""
    results, pace = list[Mapping[str, object]](), Pace(request.turns)
    for resource in _once(request):
        await pace.step(SLICE)
        results.append(_result(context, request.body, resource))
    return {"results": results}


def _once(request: Request) -> Iterator[Any]:
    """A description is much longer than its request: each resource is described once."""
    for resource in request.body.resources:
        if request.is_first((resource.resource_type, resource.resource_name)):
            yield resource


def _result(context: RequestContext, body: Any, resource: Any) -> Mapping[str, object]:
    with_documentation = getattr(body, "include_documentation", False)
    error: PlatformError | None = None
    entries: Sequence[ConfigEntry] = ()
    try:
        entries = _entries(context, resource)
    except (RefusedCommand, NotAuthorised) as refused:
        error = as_answer(refused)
    wanted = frozenset(resource.configuration_keys or ())
    return {
        **error_fields(error),
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "configs": [
            config_fields(entry, synonyms=body.include_synonyms, documentation=with_documentation)
            for entry in entries
            if not wanted or entry.name in wanted
        ],
    }


def _entries(context: RequestContext, resource: Any) -> Sequence[ConfigEntry]:
    name = resource.resource_name
    refused = config_refusal(context, _OPERATION, resource.resource_type, name)
    if refused is not None:
        raise refused
    if resource.resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        return topic_entries(context, topic(context, name, _OPERATION))
    return resource_entries(context, resource.resource_type, name)
