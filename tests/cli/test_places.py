import pytest

from penstock.base.errors import ConfigError
from penstock.cli.records.places import Place, PlaceKind

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", Place(PlaceKind.BEGINNING)),
        ("end", Place(PlaceKind.END)),
        ("0", Place(PlaceKind.OFFSET, 0)),
        ("9223372036854775807", Place(PlaceKind.OFFSET, 2**63 - 1)),
        ("@1500", Place(PlaceKind.TIME, 1500)),
        ("1970-01-02", Place(PlaceKind.TIME, DAY_MS)),
        ("1970-01-02T00:00:01.5", Place(PlaceKind.TIME, DAY_MS + 1500)),
        ("1970-01-02T01:00+01:00", Place(PlaceKind.TIME, DAY_MS)),
        ("1969-12-31", Place(PlaceKind.TIME, 0)),
    ],
)
def test_a_place_can_be_written_in_these_ways(text, place):
    assert Place.parse(text) == place


@pytest.mark.parametrize("text", ["", "-1", "latest", "9223372036854775808x", "@x", "1.5", "٣"])
def test_anything_else_is_refused_with_what_can_be_written(text):
    with pytest.raises(ConfigError, match="is not a place: write beginning, end, an offset"):
        Place.parse(text)
