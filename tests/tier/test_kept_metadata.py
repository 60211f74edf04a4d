"""What metadata that was kept goes on from, and what a command that is taken back leaves."""

from tests.tier.test_metadata import ONE, Service


def again(service: Service) -> Service:
    """Return a service that begins with what the other one knows of objects."""
    other = Service()
    for row in service.metadata.objects.rows.values():
        other.metadata.objects.restore(row)
    return other


def test_no_id_of_an_object_that_is_known_is_given_out_again() -> None:
    service = Service()
    known = service.reserve(5)
    assert min(again(service).reserve(2)) == max(known) + 1


def test_ids_and_time_go_on_from_what_was_kept_and_never_back() -> None:
    service = Service()
    service.metadata.restore_counters(50, 7_000)
    service.metadata.restore_counters(10, 3_000)
    (object_id,) = service.reserve()
    assert object_id == 50
    later = Service()
    later.now_ms = 7_000
    (other,) = later.reserve()
    rows = service.metadata.objects.rows, later.metadata.objects.rows
    assert rows[0][object_id].deadline_ms == rows[1][other].deadline_ms


def test_a_command_that_is_taken_back_leaves_everything_as_it_was() -> None:
    service = Service()
    service.copy(0, 5)
    before = dict(service.metadata.objects.rows), service.ranges()
    taken = service.reserve(3)
    service.metadata.take_back(service.metadata.before())
    assert (dict(service.metadata.objects.rows), service.ranges(ONE)) == before
    assert service.reserve(3) == taken
