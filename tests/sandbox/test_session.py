"""A session runs the three hooks of one contract in a process of its own."""

from __future__ import annotations

import pytest

from envharness.core.errors import HookFault
from envharness.core.types import Action, Blocked, EnvResponse, JsonDict, Observation
from envharness.sandbox import HookLimits, check_source, open_session

RAN_TESTS = """
class _Contract(Contract):
    def modify_transition(self, action, response, env_state):
        cmd = bash_command(action)
        if "pytest" in cmd or "runtests.py" in cmd:
            env_state.extras["ran_tests"] = True
        if is_submission(cmd) and not env_state.extras.get("ran_tests"):
            return failed(response, "run the test suite before submitting.")
        return response
"""
SUBMIT = Action(name="bash", kwargs={"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})
PYTEST = Action(name="bash", kwargs={"command": "pytest -q"})


def over(text: str = "done", *, reward: float = 0.0) -> EnvResponse:
    return EnvResponse(observation=Observation(text=text), reward=reward, terminated=True)


def contract(*methods: str) -> str:
    return "\n".join(["class _Contract(Contract):", *("    " + line for m in methods for line in m.splitlines())])


def test_the_worked_example_refuses_a_submission_until_the_tests_ran() -> None:
    with open_session(RAN_TESTS, seed=1) as session:
        refused = session.after_transition(SUBMIT, over(), {})
        assert refused.observation.text == "run the test suite before submitting."
        assert not refused.terminated
        session.after_transition(PYTEST, EnvResponse(observation=Observation(text="1 passed")), {})
        assert session.after_transition(SUBMIT, over(), {}) == over()


def test_restart_extras_forgets_the_episode() -> None:
    with open_session(RAN_TESTS, seed=1) as session:
        session.after_transition(PYTEST, over(), {})
        session.restart_extras()
        assert not session.after_transition(SUBMIT, over(), {}).terminated


def test_filter_action_may_rewrite_or_block() -> None:
    source = contract(
        "def filter_action(self, action, env_state):",
        "    if action.name == 'stop': return Blocked(reason=f'at {env_state.place.room}')",
        "    return Action(name='go', kwargs={**action.kwargs, 'fast': True})",
    )
    state: JsonDict = {"place": {"room": "kitchen"}}
    with open_session(source, seed=1) as session:
        assert session.filter_action(Action(name="stop"), state) == Blocked(reason="at kitchen")
        moved = session.filter_action(Action(name="walk", kwargs={"to": 3}, replayed=True), state)
        assert moved == Action(name="go", kwargs={"to": 3, "fast": True}, replayed=True)


def test_hooks_that_are_not_overridden_cost_no_round_trip() -> None:
    with open_session("class _Contract(Contract): pass", seed=1) as session:
        loaded = session.round_trips
        response = over()
        assert session.after_transition(SUBMIT, response, {}) is response
        assert session.filter_action(SUBMIT, {}) is SUBMIT
        assert session.filter_observation(response.observation, {}) is response.observation
        session.restart_extras()
        assert session.overridden == frozenset()
        assert session.round_trips == loaded


def test_transition_and_observation_share_one_round_trip() -> None:
    source = contract(
        "def modify_transition(self, action, response, env_state):",
        "    env_state['seen'] = 'spoilt'",
        "    response.observation.text += ' T'",
        "    return response",
        "def filter_observation(self, observation, env_state):",
        "    return Observation(text=observation.text + ' O ' + env_state.seen)",
    )
    with open_session(source, seed=1) as session:
        before = session.round_trips
        assert session.after_transition(SUBMIT, over(), {"seen": "fresh"}).observation.text == "done T O fresh"
        assert session.round_trips == before + 1
        assert session.filter_observation(Observation(text="start"), {"seen": "x"}).text == "start O x"


def test_only_a_transition_hook_gets_at_the_rest_of_the_response() -> None:
    source = contract("def filter_observation(self, observation, env_state):", "    return Observation(text='seen')")
    response = EnvResponse(observation=Observation(text="x"), reward=0.5, truncated=True, info={"nan": float("inf")})
    with open_session(source, seed=1) as session:
        proposed = session.after_transition(SUBMIT, response, {})
    assert proposed == response.model_copy(update={"observation": Observation(text="seen")})
    assert response.observation.text == "x"


def test_the_report_says_what_is_overridden() -> None:
    report = check_source(RAN_TESTS.replace("_Contract(Contract)", "_Rules(Rules)"))
    assert report.class_name == "_Rules"
    assert report.overridden == {"modify_transition"}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("class _Contract(Contract)\n    pass", "line 1: syntax error"),
        ("x = 1", "defines no class _Contract(Contract)"),
        ("class _Contract: pass", "not a subclass of Contract"),
        ("import os", "cannot import 'os'"),
        ("a = 1\nb = a / 0", "ZeroDivisionError: division by zero at line 2: `b = a / 0`"),
        ("class _Contract(Contract):\n    def __init__(self):\n        raise SystemExit(3)", "SystemExit: 3 at line 3"),
        ("x = '\0'", "null bytes"),
    ],
)
def test_source_that_is_no_contract_is_a_load_fault_with_its_line(source: str, reason: str) -> None:
    with pytest.raises(HookFault) as caught:
        check_source(source)
    assert caught.value.hook == "load"
    assert reason in caught.value.reason


def test_a_fault_names_the_hook_and_the_line_and_ends_the_session() -> None:
    source = contract("def filter_observation(self, observation, env_state):", "    return env_state['missing']")
    with open_session(source, seed=1) as session:
        with pytest.raises(HookFault, match=r"filter_observation: KeyError: 'missing' at line 3"):
            session.after_transition(SUBMIT, over(), {})
        with pytest.raises(HookFault, match="no call is possible any more"):
            session.after_transition(SUBMIT, over(), {})


def test_a_fault_is_put_down_to_the_hook_that_made_it() -> None:
    second = "def filter_observation(self, observation, env_state):\n    return Observation(text=observation.text)"
    for line, reason in (
        ("response.observation = 'text'", "the response's observation is str"),
        ("response.info['x'] = object()", "not JSON serializable"),
        ("response.reward = 'high'", "reward"),
    ):
        first = f"def modify_transition(self, action, response, env_state):\n    {line}\n    return response"
        with open_session(contract(first, second), seed=1) as session, pytest.raises(HookFault, match=reason) as caught:
            session.after_transition(SUBMIT, over(), {})
        assert caught.value.hook == "modify_transition"
    broken = second.replace("Observation(text=observation.text)", "Observation.model_construct(text=7, data={})")
    with (
        open_session(contract("def modify_transition(self, a, r, s): return r", broken), seed=1) as session,
        pytest.raises(HookFault, match="text") as caught,
    ):
        session.after_transition(SUBMIT, over(), {})
    assert caught.value.hook == "filter_observation"


def test_a_hook_that_never_returns_is_ended_at_the_deadline() -> None:
    source = contract("def filter_action(self, action, env_state):", "    while True: pass")
    with (
        open_session(source, seed=1, limits=HookLimits(call_seconds=0.3)) as session,
        pytest.raises(HookFault, match=r"no answer within 0\.3 s"),
    ):
        session.filter_action(SUBMIT, {})
