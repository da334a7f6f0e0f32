from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from envharness.components.contract import Contract
from envharness.core.policy import PolicySpec
from envharness.core.spec import StackSpec
from envharness.core.trace import Episode
from envharness.rollouts.episode import play, run_episode
from envharness.rollouts.job import Limits, RolloutJob
from envharness.rollouts.session import Session
from kitchen import Kitchen
from rollouts.hostile import WIN, Misbehaving, Script, job, kitchen, script


def played(job: RolloutJob) -> Episode:
    return asyncio.run(play(job))


def test_a_winning_episode_is_recorded_turn_by_turn() -> None:
    episode = played(job(index=2))
    assert (episode.outcome.kind, episode.outcome.reason) == ("success", "")
    assert episode.evaluation is not None
    assert episode.evaluation.success
    assert (episode.task, episode.index, episode.seed, episode.attempt) == ("mug-on-desk", 2, 2, 1)
    assert episode.start is not None
    assert episode.start.shown == episode.start.raw
    assert "Put the mug on the desk." in episode.start.shown.text
    assert [step.action.name for step in episode.steps if step.action] == ["take", "put"]
    assert episode.steps[0].shown.text.startswith("You take the mug.")
    assert episode.steps[0].state is not None
    assert episode.steps[0].state["mug"] == "hand"
    assert episode.steps[1].terminated
    assert [exchange.action.name for step in episode.steps for exchange in step.raw] == ["take", "put"]
    assert episode.usage.calls == 2
    assert episode.notes == []


@pytest.mark.parametrize(
    ("policy", "limits", "reason", "steps"),
    [
        (script([{"name": "take"}]), {}, "stopped", 2),
        (script([{"name": "take"}] * 9), {"max_steps": 4}, "out_of_steps", 4),
        (script([{"name": "take"}] * 9, tokens=10), {"policy_tokens": 25}, "token_limit", 3),
        (script([None] * 9), {"max_steps": 3}, "out_of_steps", 3),
        (script([{"name": "fly"}] * 9), {"max_steps": 3}, "out_of_steps", 3),
    ],
)
def test_how_a_policy_can_fail(policy: PolicySpec, limits: dict[str, Any], reason: str, steps: int) -> None:
    episode = played(job(policy=policy, **limits))
    assert (episode.outcome.kind, episode.outcome.reason) == ("failure", reason)
    assert len(episode.steps) == steps
    assert episode.evaluation is not None
    assert not episode.evaluation.success


@pytest.mark.parametrize("immediate", [True, False])
def test_more_observation_text_than_allowed_is_a_failure_that_names_the_limit(immediate: bool) -> None:
    policy = script([{"name": "take"}] * 9)
    if immediate:
        policy = PolicySpec(id="rollouts.hostile:Immediate", options=policy.options)
    free = played(job(policy=policy))
    assert free.start is not None
    sizes = [len(text.encode()) for text in (free.start.shown.text, *(step.shown.text for step in free.steps))]
    exactly = played(job(policy=policy, observation_bytes=sum(sizes)))
    assert exactly.outcome == free.outcome
    limit = sum(sizes[:3]) - 1
    episode = played(job(policy=policy, observation_bytes=limit))
    assert (episode.outcome.kind, episode.outcome.reason) == ("failure", "observation_limit")
    assert episode.outcome.detail == f"observation_bytes: {limit + 1} of {limit} at turn 1"
    assert len(played(job(policy=policy, observation_bytes=1)).steps) == 1


@pytest.mark.parametrize(
    ("limits", "detail"),
    [
        ({"max_steps": 4}, "max_steps: 4 of 4 at turn 3"),
        ({"policy_tokens": 25}, "policy_tokens: 30 of 25 at turn 2"),
    ],
)
def test_the_limit_that_ended_an_episode_is_in_its_outcome(limits: dict[str, Any], detail: str) -> None:
    assert played(job(policy=script([{"name": "take"}] * 9, tokens=10), **limits)).outcome.detail == detail


def test_a_limit_that_is_not_set_leaves_keys_of_jobs_as_they_were() -> None:
    assert "observation_bytes" not in Limits().model_dump(mode="json")
    assert job().key != job(observation_bytes=100).key


def test_the_environments_own_step_limit_is_out_of_steps() -> None:
    stack = StackSpec.environment("kitchen:Kitchen", max_steps=2)
    episode = played(job(stack, script([{"name": "take"}] * 5)))
    assert episode.steps[-1].truncated
    assert (episode.outcome.kind, episode.outcome.reason) == ("failure", "out_of_steps")


def test_success_on_the_very_last_step_or_token_is_success() -> None:
    assert played(job(max_steps=2)).success
    assert played(job(policy=script(tokens=5), policy_tokens=10)).success


def test_a_turn_without_an_action_is_answered_and_counted() -> None:
    episode = played(job(policy=script([None, *WIN])))
    assert episode.success
    first = episode.steps[0]
    assert first.action is None
    assert first.raw == []
    assert first.refused == "no action was named"
    assert first.shown.text.startswith("You named no action. Tools: take, put, drawer.\n\n")
    assert "Put the mug on the desk." in first.shown.text
    assert first.state is not None


def test_refused_and_blocked_turns_say_so() -> None:
    episode = played(job(policy=script([{"name": "fly"}, *WIN])))
    assert "no tool 'fly'" in episode.steps[0].refused


def test_a_policy_cannot_mark_its_actions_as_replayed() -> None:
    episode = played(job(policy=script([{**action, "replayed": True} for action in WIN])))
    assert all(step.action and not step.action.replayed for step in episode.steps)
    assert not any(exchange.action.replayed for step in episode.steps for exchange in step.raw)


def test_states_are_left_out_when_not_asked_for() -> None:
    episode = asyncio.run(play(job().model_copy(update={"record_states": False})))
    assert episode.start is not None
    assert [episode.start.state, *(step.state for step in episode.steps)] == [None, None, None]


@pytest.mark.parametrize(
    ("how", "when", "cause", "detail"),
    [
        ("raise", "init", "environment_error", "reset: KeyError: 'mug'"),
        ("raise", "reset", "environment_error", "reset: KeyError: 'mug'"),
        ("raise", "step", "environment_error", "turn 0: KeyError: 'mug'"),
        ("raise", "state", "environment_error", "reset: KeyError: 'mug'"),
        ("raise", "evaluate", "environment_error", "evaluate: KeyError: 'mug'"),
        ("none", "step", "environment_error", "turn 0: TypeError: step returned NoneType, not EnvResponse"),
        ("nan", "step", "environment_error", "turn 0: ValueError: step returned the reward nan"),
        ("object", "step", "environment_error", "turn 0: TypeError: step returned what is not JSON: "),
        ("surrogate", "step", "environment_error", "turn 0: TypeError: step returned what is not JSON: "),
        ("sys.exit", "step", "environment_error", "turn 0: RuntimeError: the environment raised SystemExit"),
        ("stop iteration", "step", "environment_error", "turn 0: "),
        ("timeout", "step", "environment_error", "turn 0: TimeoutError: the container did not answer"),
        ("hook fault", "step", "component_fault", "turn 0: hook filter_action: it raised"),
        ("replay error", "reset", "component_fault", "reset: stage action 1: it drifted"),
        ("zygote", "reset", "sandbox_error", "reset: it is gone"),
    ],
)
def test_a_failure_of_the_stack_is_never_the_policys(how: str, when: str, cause: str, detail: str) -> None:
    episode = played(job(kitchen(how=how, when=when)))
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", cause)
    assert episode.outcome.detail.startswith(detail)
    assert "\n" not in episode.outcome.detail
    assert episode.evaluation is None
    assert not episode.valid
    assert Episode.model_validate_json(episode.model_dump_json()) == episode


@pytest.mark.parametrize(
    ("options", "detail"),
    [
        ({"how": "raise", "at": 1}, "turn 1: KeyError"),
        ({"how": "provider"}, "turn 0: 429 from the provider"),
        ({"how": "dictionary"}, "turn 0: TypeError: act returned dict, not a Decision"),
        ({"how": "timeout"}, "turn 0: TimeoutError"),
        ({"how": "", "actions": [{"name": "say \ud800"}]}, "turn 0: PydanticSerializationError"),
        ({"how": "constructor"}, "making the policy: ValueError: no such model"),
        ({"unknown": 1}, "making the policy: TypeError"),
    ],
)
def test_a_policy_that_breaks_says_nothing_about_the_task(options: dict[str, Any], detail: str) -> None:
    episode = played(job(policy=script(**options)))
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "policy_error")
    assert episode.outcome.detail.startswith(detail)


def test_what_cannot_be_built_is_invalid_with_the_place() -> None:
    episode = played(job(StackSpec.environment("nowhere:Nothing")))
    assert episode.outcome.reason == "environment_error"
    assert "stack.id" in episode.outcome.detail
    component = played(job(kitchen().wrap("stage", wrong=1)))
    assert component.outcome.reason == "component_fault"
    assert "stack.state" in component.outcome.detail
    policy = played(job(policy=PolicySpec(id="nobody")))
    assert policy.outcome.reason == "policy_error"


def test_a_component_of_somebody_elses_that_returns_nothing_is_named() -> None:
    episode = played(job(kitchen().wrap("rollouts.hostile:Forgetful")))
    assert episode.outcome.reason == "environment_error"
    assert episode.outcome.detail == "turn 0: TypeError: step returned NoneType, not EnvResponse"


def test_a_stages_replay_is_recorded_and_not_charged() -> None:
    episode = played(job(kitchen().wrap("stage", actions=WIN[:1]), script(WIN[1:])))
    assert episode.success
    assert episode.start is not None
    assert [exchange.action.name for exchange in episode.start.replayed] == ["take"]
    assert episode.start.replayed[0].action.replayed
    assert episode.start.raw.text != episode.start.shown.text
    assert len(episode.steps) == 1


def test_a_stage_that_cannot_replay_is_a_component_fault() -> None:
    episode = played(job(kitchen().wrap("stage", actions=[{"name": "fly"}])))
    assert episode.outcome.reason == "component_fault"


def test_a_hanging_step_is_given_up_and_does_not_stall_others() -> None:
    async def both() -> tuple[Episode, Episode, float]:
        hanging = asyncio.create_task(play(job(kitchen(how="hang", seconds=2.0), step_seconds=0.3)))
        began = time.monotonic()
        fine = await play(job())
        return await hanging, fine, time.monotonic() - began

    hung, fine, _ = asyncio.run(both())
    assert (hung.outcome.kind, hung.outcome.reason) == ("invalid", "time_limit")
    assert "0.3 s" in hung.outcome.detail
    assert any("abandoned" in note for note in hung.notes)
    assert fine.success
    assert fine.seconds < 0.3


def test_a_policy_that_waits_too_long_makes_the_episode_invalid() -> None:
    episode = played(job(policy=script(how="waits"), episode_seconds=0.2))
    assert (episode.outcome.kind, episode.outcome.reason) == ("invalid", "time_limit")
    assert "0.2 s" in episode.outcome.detail


def test_faults_in_the_dense_reward_and_on_closing_are_noted_and_end_nothing() -> None:
    episode = played(job(StackSpec.environment("rollouts.hostile:Rewarding")))
    assert episode.success
    assert episode.steps[0].dense_reward == 1.0
    assert episode.steps[1].dense_reward == 0.0
    assert episode.notes == ["step 1: step_reward: ZeroDivisionError: in the reward"]
    closing = played(job(kitchen(how="raise", when="close"), script(how="close")))
    assert closing.success
    assert closing.notes == ["closing the policy: OSError: pipe", "closing the environment: KeyError: 'mug'"]


def test_nobody_can_edit_the_trace() -> None:
    edited = played(job(policy=script(how="edits observation")))
    assert edited.start is not None
    assert "edited" not in edited.start.shown.data
    assert all("edited" not in step.shown.text for step in edited.steps)
    by_environment = played(job(kitchen(how="edits action", when="step")))
    assert by_environment.steps[1].action is not None
    assert by_environment.steps[1].action.kwargs == {"place": "desk"}
    aliased = played(job(StackSpec.environment("rollouts.hostile:Aliasing"), script([None, None])))
    lengths = [len(step.shown.data["history"]) for step in aliased.steps]  # pyright: ignore[reportArgumentType]  a list
    assert lengths == sorted(set(lengths))


def test_an_environment_lives_on_one_thread() -> None:
    episode = played(job(kitchen(how="nothing")))
    assert episode.evaluation is not None
    assert episode.evaluation.metrics == {"threads": 1}


def test_cancelling_closes_policy_and_environment(tmp_path: Any) -> None:
    closed = tmp_path / "closed"

    async def cancel() -> None:
        task = asyncio.create_task(
            play(job(kitchen(how="nothing", when="close", once=str(closed)), script(how="waits")))
        )
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert closed.exists()


def test_run_episode_plays_specs_and_live_objects() -> None:
    by_spec = run_episode(kitchen(), script(), seed=4)
    assert by_spec.success
    assert (by_spec.task, by_spec.seed) == ("mug-on-desk", 4)
    env = Misbehaving()
    live = run_episode(env, Script(seed=0, actions=WIN))
    assert live.success
    assert env.threads == {threading.get_ident()}
    assert run_episode(env, script(), record_states=False, limits=Limits(max_steps=1)).outcome.reason == "out_of_steps"
    assert env.reset().observation.text  # still open, and the caller's
    env.close()


def test_run_episode_leaves_no_tap_and_no_thread_behind() -> None:
    before = threading.active_count()
    env = Kitchen()
    stage = StackSpec.environment("kitchen:Kitchen").wrap("stage", actions=[]).build()
    run_episode(stage, script())
    run_episode(kitchen(), script())
    assert type(stage.children()[0]) is Kitchen
    assert threading.active_count() == before
    env.close()
    stage.close()


def test_a_live_environment_that_is_slow_runs_into_the_limits() -> None:
    with Misbehaving(how="hang", seconds=0.2) as env:
        assert run_episode(env, script(), limits=Limits(step_seconds=0.1)).outcome.reason == "time_limit"
        assert run_episode(env, script(), limits=Limits(episode_seconds=0.1)).outcome.reason == "time_limit"


def test_run_episode_in_an_event_loop_says_what_to_do() -> None:
    async def inside() -> None:
        run_episode(kitchen(), script())

    with pytest.raises(RuntimeError, match=r"await envharness\.rollouts\.episode\.play"):
        asyncio.run(inside())


@pytest.mark.parametrize("unsafe", [False, True])
def test_hooks_run_unconfined_only_on_an_explicit_wish(unsafe: bool) -> None:
    inner = StackSpec.environment("kitchen:Kitchen").wrap("contract", source="class _Contract(Contract): pass")
    with inner.wrap("stage", actions=[]).build() as env:
        session = Session(lambda: env, owns=False, record_states=False, unsafe_hooks=unsafe)
        session.start(0)
        contract = env.children()[0]
        assert isinstance(contract, Contract)
        assert contract.unsafe_hooks is unsafe
        session.close()


def test_what_components_did_is_in_the_trace() -> None:
    source = (
        "class _Contract(Contract):\n"
        "    def filter_action(self, action, env_state):\n"
        "        if action.name == 'drawer':\n"
        "            return Blocked(reason='the drawer stays shut')\n"
        "        return action\n"
    )
    stack = kitchen().wrap("contract", source=source)
    episode = played(job(stack, script([{"name": "drawer", "kwargs": {"state": "open"}}, *WIN])))
    assert episode.success
    first = episode.steps[0]
    assert first.blocked == "the drawer stays shut"
    assert first.shown.text.startswith("the drawer stays shut\n\n")
    assert [(event.component, event.kind) for event in first.events] == [("contract#0", "blocked")]
    assert first.raw == []
    assert [event for step in episode.steps[1:] for event in step.events] == []
