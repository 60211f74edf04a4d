"""How often a peer is dialled whose links do not last."""

from penstock.net.redial import RedialPause


def test_the_pause_grows_to_its_bound_while_links_end_at_once() -> None:
    pause = RedialPause(50, 1_000)
    assert [pause.after(lasted) for lasted in (0, 3, 0, 1_000, 999, 0, 0)] == [
        50, 100, 200, 400, 800, 1_000, 1_000,
    ]  # fmt: skip


def test_a_link_that_lasted_is_dialled_soon() -> None:
    pause = RedialPause(50, 1_000)
    for _ in range(10):
        pause.after(0)
    assert [pause.after(lasted) for lasted in (1_001, 0, 60_000)] == [50, 100, 50]
