import json

from penstock.node.pages.readiness import Readiness
from penstock.runtime.io.http_server import Page


def content(page: Page) -> tuple[int, dict[str, object]]:
    return page.status, json.loads(page.body)


def test_a_node_that_recovers_is_healthy_and_not_ready_and_shows_how_far_it_is() -> None:
    readiness = Readiness()
    readiness.enter("recovery", done_bytes=5, total_bytes=10)
    assert content(readiness.health_page())[0] == 200
    status, state = content(readiness.ready_page())
    assert status == 503
    assert (state["phase"], state["progress"]) == ("recovery", {"done_bytes": 5, "total_bytes": 10})


def test_a_node_that_serves_is_both() -> None:
    readiness = Readiness()
    readiness.ready()
    assert content(readiness.ready_page()) == content(readiness.health_page())
    assert content(readiness.ready_page())[0] == 200


def test_a_fenced_part_is_named_and_the_node_unhealthy() -> None:
    readiness = Readiness()
    readiness.ready()
    readiness.fence("metadata log", "sync failed")
    status, state = content(readiness.health_page())
    assert (status, state["fenced"]) == (503, {"metadata log": "sync failed"})
    assert content(readiness.ready_page())[0] == 200


def test_a_ready_node_that_opens_one_more_log_stays_ready_until_it_stops() -> None:
    readiness = Readiness()
    readiness.ready()
    readiness.enter("recovery", done_bytes=5, total_bytes=10)
    assert content(readiness.ready_page())[1]["phase"] == "ready"
    readiness.stop()
    status, state = content(readiness.ready_page())
    assert (status, state["phase"]) == (503, "stopping")
