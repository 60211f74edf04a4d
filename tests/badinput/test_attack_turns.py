"""What the attacks say of turns of the loop is of the attack, and not of the node's start."""

from reliability.attacks.attack_turns import longest_since, turns_on

PAGE = b"""# HELP penstock_peer_longest_turn_seconds The longest time of a frame.
penstock_loop_longest_turn_seconds{api="metadata"} 0.0051
penstock_peer_longest_turn_seconds{frame="ACKNOWLEDGE"} 0.0958
"""
BEFORE = {"metadata": 0.0051, "ACKNOWLEDGE": 0.0958}


def test_times_of_requests_and_frames_are_read_from_the_page() -> None:
    assert turns_on(PAGE) == BEFORE


def test_a_turn_that_was_there_before_the_attack_is_not_blamed_on_it() -> None:
    # A turn of 96 ms was told of an attack in which no record waited for more than 30 ms.
    after = {**BEFORE, "metadata": 0.0074, "HELLO": 0.0021}
    assert longest_since(BEFORE, after) == "metadata 7.4 ms"


def test_a_longer_turn_of_the_same_kind_is_the_attacks() -> None:
    assert longest_since(BEFORE, {**BEFORE, "ACKNOWLEDGE": 0.1}) == "ACKNOWLEDGE 100.0 ms"


def test_without_another_turn_nothing_held_the_loop() -> None:
    assert longest_since(BEFORE, BEFORE) == "nothing 0 ms"
