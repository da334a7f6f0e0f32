from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from envharness.rigger.search import Response, next_magnitude


@given(st.floats(0.03, 0.97), st.booleans())
def test_bisection_closes_in_on_a_monotone_response(where: float, rising: bool) -> None:
    """The response turns at `where`; the search must come within 1/64 of it and then stop asking."""
    history: list[Response] = []
    for _ in range(20):
        magnitude = next_magnitude(history, target=0.5, rising=rising)
        if magnitude is None:
            break
        assert 0.0 <= magnitude <= 1.0
        assert all(abs(magnitude - earlier.magnitude) > 1e-9 for earlier in history)
        history.append(Response(magnitude, 0.8 if (magnitude > where) == rising else 0.2))
    else:
        raise AssertionError("the search never ends")
    assert min(abs(response.magnitude - where) for response in history) < 1 / 64


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])), max_size=8), st.booleans())
def test_noise_never_leads_out_of_range_or_to_a_repetition(pairs: list[tuple[float, float]], rising: bool) -> None:
    history = [Response(magnitude, rate) for magnitude, rate in pairs]
    magnitude = next_magnitude(history, target=0.5, rising=rising)
    if magnitude is not None and history:
        assert 0.0 <= magnitude <= 1.0
        assert all(magnitude != earlier.magnitude for earlier in history)


def test_a_cliff_is_left_alone_once_it_is_known_as_one() -> None:
    cliff = [Response(0.5, 0.0), Response(0.25, 1.0)]
    assert next_magnitude(cliff, target=0.5, rising=False) == 0.375
    assert next_magnitude([*cliff, Response(0.375, 1.0)], target=0.5, rising=False) is None
    assert next_magnitude([*cliff, Response(0.375, 0.8)], target=0.5, rising=False) == 0.4375


def test_nothing_strong_enough_goes_to_the_end_and_then_gives_up() -> None:
    weak = [Response(0.5, 1.0)]
    assert next_magnitude(weak, target=0.5, rising=False) == 1.0
    assert next_magnitude([*weak, Response(1.0, 0.8)], target=0.5, rising=False) is None


def test_the_first_magnitude_is_the_templates() -> None:
    assert next_magnitude([], target=0.5, rising=True, first=0.7) == 0.7
