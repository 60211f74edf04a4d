"""The part of a snapshot that replay_config reads: features first, then configuration.

Source: KIP-630. Sorted, so that equal images give equal bytes; carried records keep their order.
"""

from penstock.controller.metadata import records as r
from penstock.controller.metadata.config_records import ClientQuotaChanged
from penstock.controller.metadata.image import ClusterImage
from penstock.controller.metadata.levels import METADATA
from penstock.controller.metadata.tier_records import CopiesGivenUp


def feature_records(image: ClusterImage) -> list[r.MetadataRecord]:
    """Return the levels, that of metadata first: what follows may need it."""
    return [
        r.FeatureLevelChanged(feature=name, level=level, epoch=image.features_epoch)
        for name, level in sorted(image.features.items(), key=lambda one: one[0] != METADATA)
    ]


def configuration_records(image: ClusterImage) -> list[r.MetadataRecord]:
    """Return what stands of configuration beside topics."""
    kept = image.configuration
    found: list[r.MetadataRecord] = [
        r.ConfigChanged(resource_type=kind, resource_name=name, key=key, value=value)
        for (kind, name), values in sorted(kept.resources.items())
        for key, value in sorted(values.items())
    ]
    found += [
        ClientQuotaChanged(entity=entity, key=key, value=value)
        for entity, values in sorted(kept.quotas.items(), key=lambda one: repr(one[0]))
        for key, value in sorted(values.items())
    ]
    found += [one for _, one in sorted(kept.credentials.items())]
    found += [one for _, one in sorted(kept.acls.items())]
    found += [one for _, one in sorted(kept.tokens.items())]
    found += [one for _, one in sorted(kept.reassignments.items())]
    found += [one for _, one in sorted(kept.login_secrets.items())]
    found += [one for _, one in sorted(kept.reached_epochs.items())]
    found += [
        CopiesGivenUp(topic_id=topic_id, count=count)
        for topic_id, count in sorted(kept.give_ups.items())
    ]
    return [*found, *kept.carried.values()]
