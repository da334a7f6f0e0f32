"""Builds small rigging runs for the tests: real records in a real store, nothing measured."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from envharness.core.spec import StackSpec
from envharness.core.trace import ComponentEvent, Episode, Exchange, Outcome, StartRecord, TraceStep
from envharness.core.types import Action, EnvResponse, EvaluationResult, JsonDict, Observation
from envharness.rigger.records import (
    Candidate,
    CandidateCheck,
    Diagnosis,
    Measurement,
    RigSummary,
    Round,
    TaskResult,
    TaskStatus,
)
from envharness.store.database import RunStore

CONFIG: JsonDict = {
    "environment": {"id": "toy24", "options": {}},
    "policy": {"id": "random", "options": {}},
    "designer": {"id": "template", "options": {}},
    "band": [0.4, 0.6],
    "rollouts": 5,
    "remeasure": 100,
    "seed": 7,
}
SOURCE = '''class _Contract(Contract):
    """Multiplication fails on every third use."""

    def filter_action(self, action, env_state):
        uses = env_state.extras.setdefault("uses", 0)
        if action.name == "combine" and action.kwargs.get("operation") == "*":
            env_state.extras["uses"] = uses + 1
            if uses % 3 == 2:  # every third
                return Blocked(reason="The multiplication key is stuck. Try another way & again.")
        return action
'''


def measured(wins: int, asked: int = 5, *, valid: int | None = None, episodes: tuple[str, ...] = ()) -> Measurement:
    return Measurement(
        asked=asked,
        valid=asked if valid is None else valid,
        successes=wins,
        turns=asked * 6,
        mean_steps=6.0,
        blocked_turns=wins,
        episodes=episodes,
    )


def step(number: int, text: str, *, raw: str | None = None, blocked: str = "", policy_text: str = "") -> TraceStep:
    action = Action(name="combine", kwargs={"left": 8, "right": number, "operation": "*"})
    exchange = Exchange(action=action, response=EnvResponse(observation=Observation(text=raw or text)))
    events: list[ComponentEvent] = []
    if blocked:
        events.append(ComponentEvent(component="contract#0", kind="blocked", hook="filter_action", detail=blocked))
    elif raw:
        events.append(ComponentEvent(component="contract#0", kind="changed_observation", hook="filter_observation"))
    return TraceStep(
        step=number,
        action=action,
        text=policy_text,
        shown=Observation(text=text),
        blocked=blocked,
        raw=[] if blocked else [exchange],
        events=events,
    )


def episode(task: str, *, won: bool, index: int = 0, steps: list[TraceStep] | None = None) -> Episode:
    played = steps or [
        step(0, "Numbers: 8 3 3 1", policy_text="I will multiply first."),
        step(1, "Numbers: 24 3 [the rest is hidden]", raw="Numbers: 24 3 1\nMoves left: 9"),
        step(2, "Numbers: 24 3 1", blocked="The multiplication key is stuck."),
    ]
    shown = Observation(text="Make 24.\nNumbers: 8 3 3 1")
    return Episode(
        task=task,
        index=index,
        seed=index,
        outcome=Outcome(kind="success") if won else Outcome(kind="failure", reason="out_of_steps"),
        evaluation=EvaluationResult(success=won, score=1.0 if won else 0.0),
        start=StartRecord(
            shown=shown,
            raw=Observation(text="Make 24.\nNumbers: 8 8 3 3 1"),
            replayed=[
                Exchange(action=played[0].action or Action(name="stop"), response=EnvResponse(observation=shown))
            ],
        ),
        steps=played,
        seconds=0.25,
    )


def result(
    task: str,
    before: int,
    after: int | None = None,
    *,
    fresh: int | None = None,
    flaw: str = "leans_on_action",
    source: str = SOURCE,
    actions: list[Action] | None = None,
) -> TaskResult:
    """Build a task's result: accepted where `after` is given, else left alone or rejected by its baseline."""
    status: TaskStatus = "accepted" if after is not None else "in_band_already" if before in {2, 3} else "rejected"
    episodes = tuple(f"{task}-{index}" for index in range(5))
    candidate = Candidate(
        in_env_actions=actions or [],
        contract_source=source,
        template="ration_action",
        magnitude=0.375,
        parameters={"tool": "combine", "every": 3},
        rationale="It multiplies first; rationing that makes it look for another line.",
    )
    checks = [
        CandidateCheck(id="compiles", passed=True),
        CandidateCheck(id="changes_something", passed=True, detail="9 of 30"),
    ]
    rounds: list[Round] = []
    if status != "in_band_already":
        rounds.append(
            Round(
                number=1,
                candidate=candidate,
                checks=checks,
                measured=measured(before),
                decision="refine",
                verdict="no_movement",
                feedback="Nothing moved: take another type.",
            )
        )
    if after is not None:
        rounds.append(
            Round(
                number=2,
                candidate=candidate,
                checks=checks,
                measured=measured(after, episodes=episodes),
                decision="accept",
                verdict="in_band",
            )
        )
    base = StackSpec.environment("toy24", task=task)
    return TaskResult(
        task=task,
        status=status,
        base_stack=base,
        final_stack=candidate.apply(base) if after is not None else base,
        baseline=measured(before, episodes=() if after is not None else episodes),
        diagnosis=Diagnosis(
            flaw=flaw,
            text="It reaches for multiplication in 80 % of its turns.",
            direction="harden" if before > 3 else "scaffold",
            evidence=["rollout 0, steps 0-2: 3 of 3 turns are combine(operation=*)"],
            scores={"leans_on_action": 0.8, "stops_early": 0.1, "repeats_actions": 0.3},
        ),
        rounds=rounds,
        accepted_round=2 if after is not None else None,
        remeasured=None if fresh is None else measured(fresh, 100),
    )


def open_store(folder: Path, config: JsonDict = CONFIG) -> RunStore:
    return RunStore.open(folder, config=config, command="rig")


def put_result(store: RunStore, designer: str, found: TaskResult) -> None:
    body = cast("JsonDict", found.model_dump(mode="json"))
    kind = "live/task_result" if found.status == "invalid" else "task_result"
    store.put_record(kind, f"{designer}/{found.task}", body)


def put_summary(store: RunStore, designer: str, *, seconds: float = 72.0) -> None:
    summary = RigSummary(
        tasks=1,
        accepted=0,
        in_band_before=0,
        in_band_after=0,
        rollouts=0,
        invalid=0,
        seconds=seconds,
        run_dir="run",
        designer=designer,
    )
    store.put_record("summary", designer, cast("JsonDict", summary.model_dump(mode="json")))


def put_episodes(store: RunStore, found: TaskResult, *, steps: list[TraceStep] | None = None) -> None:
    """Store five episodes under the keys the result names: the first wins, the others lose."""
    for index in range(5):
        played = episode(found.task, won=index == 0, index=index, steps=steps)
        store.put_episode(f"{found.task}-{index}", "rig", played)


def sample_run(folder: Path) -> RunStore:
    """Store a finished run of eight tasks with its null."""
    wins = [(5, 3, 55), (5, 2, 61), (0, 2, 33), (5, 3, 48), (5, 2, 45), (3, None, 66), (0, None, 0), (5, 3, 72)]
    store = open_store(folder)
    for number, (before, after, fresh) in enumerate(wins):
        flaw = ("leans_on_action", "repeats_actions", "none")[number % 3]
        stage = [Action(name="combine", kwargs={"left": 8, "right": 3, "operation": "-"})] if number == 2 else None
        found = result(f"hard-{number:04d}", before, after, fresh=fresh, flaw=flaw, actions=stage)
        put_result(store, "template", found)
        put_episodes(store, found)
        put_result(store, "identity", result(f"hard-{number:04d}", before, fresh=100 if before else 0, source=""))
    put_summary(store, "template")
    put_summary(store, "identity")
    return store
