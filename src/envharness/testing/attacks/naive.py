"""The control of attacks that a process boundary stops: a harness without one.

It runs a hook in the environment's own process, hands it the live objects and believes what it gets back. Each attack
runs in a forked process that may be lost. Started as a program: attacks as JSON lines in, findings as JSON lines out.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
from typing import Any

from envharness.core.types import Action, Blocked, EnvResponse, Observation
from envharness.sandbox.hook_scope import CONTRACT_CLASSES, SCOPE
from envharness.testing.attacks import attack as definitions
from envharness.testing.attacks import victim
from envharness.testing.attacks.victim import STEPS, VictimEnvironment

_SECONDS = 10.0


def main() -> None:
    """Answer each line of standard input: `{"name", "source"}` gives `{"name", "harm": [...]}`."""
    setattr(victim, "SECRET", definitions.SECRET)  # noqa: B010  the module has no such name
    with tempfile.TemporaryFile() as secret:
        secret.write(definitions.SECRET.encode())
        secret.flush()
        for line in sys.stdin:
            request = json.loads(line)
            sys.stdout.write(json.dumps({"name": request["name"], "harm": _harm(request["source"])}) + "\n")
            sys.stdout.flush()


def _harm(source: str) -> list[str]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(Exception):  # a harness that reports a hook's exception and nothing else
            os.write(writer, json.dumps(_run(source)).encode())
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], _SECONDS)
    report = os.read(reader, 65536) if ready else b""
    os.close(reader)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not report:
        return [f"the environment's process was lost (status {status})"] if ready else ["it never came back"]
    return list(json.loads(report))


def _run(source: str) -> list[str]:
    environment = VictimEnvironment()
    namespace: dict[str, Any] = dict(SCOPE)
    harm: list[str] = []
    try:
        exec(source, namespace)  # noqa: S102  the mistake that this harness is there to show
        contract: Any = next(namespace[name] for name in CONTRACT_CLASSES if name in namespace)()
        _play(environment, contract, harm)
    except Exception as error:  # noqa: BLE001  what a harness does that thinks hooks only ever raise
        harm += [str(error)] if definitions.BREACH in str(error) else []
        return harm
    verdict = contract.evaluate() if hasattr(contract, "evaluate") else environment.evaluate()
    if verdict.success:
        harm.append("the verdict changed")
    return harm


def _play(environment: VictimEnvironment, contract: Any, harm: list[str]) -> None:
    observation = environment.reset()
    shown = contract.filter_observation(observation, environment.live)
    for _ in range(STEPS):
        action = Action(name="work", kwargs={"note": ["a"]})
        chosen = contract.filter_action(action, environment.live)
        if action != Action(name="work", kwargs={"note": ["a"]}):
            harm.append("the policy's action changed")
        if isinstance(chosen, Blocked) and isinstance(chosen.reason, str):  # pyright: ignore[reportUnnecessaryIsInstance]  a hook's lie
            harm += [chosen.reason] if definitions.BREACH in chosen.reason else []
            continue
        if not _is_true_action(chosen):
            harm.append(f"{type(chosen).__name__} reached the environment")
            return
        step: Any = contract.step if hasattr(contract, "step") else environment.step
        response = contract.modify_transition(chosen, step(chosen), environment.live)
        if not isinstance(response, EnvResponse):
            harm.append(f"{type(response).__name__} reached the policy")
            return
        shown = contract.filter_observation(response.observation, environment.live)
        if response.reward != 0.25:  # noqa: PLR2004  what the environment gives
            harm.append("the reward changed")
    if not isinstance(shown, Observation) or not isinstance(shown.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  a hook's lie
        harm.append("the policy was shown what is no observation")


def _is_true_action(value: object) -> bool:
    """Whether it is an action that can be sent and stored."""
    if not isinstance(value, Action):
        return False
    try:
        body = json.dumps({"name": value.name, "kwargs": value.kwargs})
        again = Action.model_validate_json(body, strict=True)
    except (ValueError, TypeError, RecursionError):
        return False
    return again == value and len(body) < 2**22


if __name__ == "__main__":
    main()
