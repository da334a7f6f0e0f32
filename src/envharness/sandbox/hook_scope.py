"""The names that hook source finds in scope without importing anything."""

from __future__ import annotations

from typing import Any

from pydantic import JsonValue

from envharness.core.types import Action, Blocked, EnvResponse, Observation
from envharness.sandbox.state_view import EnvState

SUBMISSION_SENTINELS = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT")
"""Words that end an episode when a shell command prints them."""

SUBMISSION_TOOLS = frozenset({"submit", "stop", "finish", "submit_answer", "final_answer"})
"""Tools that end an episode when they are called, and shell commands that do so when they are all there is."""

_SHELL_TOOLS = frozenset(
    {"bash", "shell", "sh", "terminal", "execute", "execute_bash", "run", "run_bash", "run_command", "run_shell"}
)
_SHELL_KEYS = ("command", "cmd", "script")


class ContractHooks:
    """Base of a contract's source. Override one hook or more; what is not overridden changes nothing.

    Arguments are copies, and so is what a hook returns: changing them changes nothing outside.
    `env_state` reads like an object and like a dict; `env_state.extras` is a dict that lasts for the episode.
    """

    def filter_action(self, action: Action, env_state: EnvState) -> Action | Blocked:  # noqa: ARG002  hook signature
        """Before the step; `env_state` is the state before it. Return an action, or `Blocked(reason=…)`."""
        return action

    def modify_transition(self, action: Action, response: EnvResponse, env_state: EnvState) -> EnvResponse:  # noqa: ARG002  hook signature
        """After the step; `env_state` is the state after it. Return a response."""
        return response

    def filter_observation(self, observation: Observation, env_state: EnvState) -> Observation:  # noqa: ARG002  hook signature
        """Last, and once after reset. Return what the policy shall see."""
        return observation


def bash_command(action: Action) -> str:
    """The command line of a shell-like tool call (`bash`, `shell`, `execute_bash` …), or "" for any other action."""
    if action.name.lower() not in _SHELL_TOOLS:
        return ""
    for key in _SHELL_KEYS:
        value: JsonValue = action.kwargs.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return " ".join(str(word) for word in value)
    return ""


def is_submission(command: str | Action) -> bool:
    """Whether a shell command, or an action, hands in the work: a sentinel word in it, or a tool such as `submit`."""
    if isinstance(command, Action):
        return command.name.lower() in SUBMISSION_TOOLS or is_submission(bash_command(command))
    if any(sentinel in command for sentinel in SUBMISSION_SENTINELS):
        return True
    return command.strip().lower() in SUBMISSION_TOOLS


def failed(response: EnvResponse, message: str) -> EnvResponse:
    """A copy of `response` in which the policy is shown `message` and the episode is not terminated."""
    return EnvResponse(
        observation=Observation(text=message),
        reward=response.reward,
        terminated=False,
        truncated=response.truncated,
        info=dict(response.info),
    )


SCOPE: dict[str, Any] = {
    "Contract": ContractHooks,
    "ContractHooks": ContractHooks,
    "Rules": ContractHooks,
    "Action": Action,
    "Blocked": Blocked,
    "Observation": Observation,
    "EnvResponse": EnvResponse,
    "bash_command": bash_command,
    "is_submission": is_submission,
    "failed": failed,
}
"""Name → object, for the namespace of hook source."""

CONTRACT_CLASSES = ("_Contract", "_Rules")
"""The class names looked for in hook source, the first one found wins."""
