"""Every error this package raises, as one tree.

EnvHarnessError                 base; `exit_code` is what the command line ends with
├── ConfigError           (2)   a configuration file or flag is wrong; names the key or line
├── UnknownIdError        (2)   nothing is registered, or in a run, under that name
├── PluginError           (2)   a registered name exists but cannot be imported
├── SpecError             (2)   a stack, checkpoint or state is malformed; names the place
│   └── SchemaVersionError      written by a version this one cannot read
├── BridgeError           (3)   what a bridge reports
│   ├── LifecycleError          step before reset, after the end, or after close
│   ├── TaskError               an unknown task, or a task that cannot be loaded
│   ├── MissingDataError        the benchmark's files or packages are not installed
│   ├── NotResumableError       resume() on a bridge that cannot take a termination back
│   └── ThreadError             an engine that is bound to one thread was entered from another
├── ComponentFault        (4)   a component broke its promise: never retried, goes back to the designer
│   ├── HookFault               hook source raised, hung, lied or died
│   └── ReplayError             a Stage's action was refused, blocked, ended the episode or drifted
├── MachineryError        (5)   our side failed: retried a bounded number of times
│   ├── ZygoteError             the sandbox's server process is gone or was starved of CPU
│   ├── TimeLimitError          a wall-clock limit of the machinery was reached
│   ├── PolicyError             the policy's program or provider failed
│   └── ProviderError           a model endpoint failed
│       ├── ProviderRefusedError    (8) key, permission or model is wrong: stops the run
│       ├── RateLimitError          too many requests, after all retries
│       ├── OverloadedError         the endpoint is overloaded or down, after all retries
│       ├── ProviderTimeoutError    no complete answer in time, after all retries
│       ├── ContextTooLongError     the prompt does not fit the model
│       ├── ContentFilterError      the provider's filter refused
│       └── MalformedAnswerError    the answer breaks the protocol, after all retries
├── SandboxUnavailableError (6) this system cannot confine hook code
├── BudgetExhaustedError  (9)   the budget is spent: paused, the same command goes on
└── StoreError            (7)   the run folder cannot be used
    ├── DamagedEntryError       one episode, job or record is damaged; the others can be read
    ├── RunLockedError          another process is working on this run
    └── ConfigChangedError      the run was started with another configuration
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from envharness.core.usage import Usage


class EnvHarnessError(Exception):
    """Base of all errors raised on purpose by this package."""

    exit_code: int = 1


class ConfigError(EnvHarnessError):
    """A configuration value is wrong; the message names the file, the key and what is allowed."""

    exit_code = 2


class UnknownIdError(EnvHarnessError):
    """A name that nothing is registered under, or that nothing in a run has. A bridge's unknown task is a TaskError."""

    exit_code = 2


class PluginError(EnvHarnessError):
    """A registered name whose module or class cannot be loaded."""

    exit_code = 2


class SpecError(EnvHarnessError):
    """A stack description is malformed. `place` is a path into it such as `stack.inner.state`."""

    exit_code = 2

    def __init__(self, message: str, *, place: str = "") -> None:
        super().__init__(f"{place}: {message}" if place else message)
        self.place = place


class SchemaVersionError(SpecError):
    """A file of a schema version that this package does not read."""


class BridgeError(EnvHarnessError):
    """Base of what a bridge reports about its own use or set-up."""

    exit_code = 3


class LifecycleError(BridgeError):
    """A call out of order: step before reset, after the end of the episode, or after close."""


class TaskError(BridgeError):
    """The task does not exist or cannot be loaded. Never answered with another task."""


class MissingDataError(BridgeError):
    """Files or packages of the benchmark are missing; the message says how to get them."""


class NotResumableError(BridgeError):
    """`resume()` was called on a bridge whose terminations are final."""


class ThreadError(BridgeError):
    """An engine that is bound to one thread was entered from another one."""


class ComponentFault(EnvHarnessError):
    """A component broke its promise. Costs one episode, is never retried, voids its batch."""

    exit_code = 4


class HookFault(ComponentFault):
    """Hook source failed. `hook` names the function (or "load"), `reason` says what happened."""

    def __init__(self, hook: str, reason: str) -> None:
        super().__init__(f"hook {hook}: {reason}")
        self.hook = hook
        self.reason = reason

    def __reduce__(self) -> tuple[type[HookFault], tuple[str, str]]:
        return (HookFault, (self.hook, self.reason))


class ReplayError(ComponentFault):
    """A Stage could not be replayed. `index` is the 0-based position of the action at fault."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"stage action {index}: {reason}")
        self.index = index
        self.reason = reason

    def __reduce__(self) -> tuple[type[ReplayError], tuple[int, str]]:
        return (ReplayError, (self.index, self.reason))


class MachineryError(EnvHarnessError):
    """Our side failed, not the policy and not the component. May be retried."""

    exit_code = 5


class ZygoteError(MachineryError):
    """The sandbox's server process is gone, or a hook was starved of CPU by the machine."""


class TimeLimitError(MachineryError):
    """A wall-clock limit of the machinery was reached."""


class PolicyError(MachineryError):
    """The policy's program or provider failed; says nothing about how good the policy is."""


class ProviderError(MachineryError):
    """A model endpoint failed: says nothing about the policy or the designer."""

    usage: Usage | None = None
    """What the attempts cost all the same; None where nobody counted."""


class ProviderRefusedError(ProviderError):
    """The endpoint knows neither key, permission nor model. No retry can help, so the run stops at once."""

    exit_code = 8


class RateLimitError(ProviderError):
    """The endpoint kept saying that there are too many requests."""


class OverloadedError(ProviderError):
    """The endpoint kept failing on its own side."""


class ProviderTimeoutError(ProviderError):
    """No complete answer came in time."""


class ContextTooLongError(ProviderError):
    """The prompt does not fit into the model's context; sending it again cannot help."""


class ContentFilterError(ProviderError):
    """The provider's filter refused the prompt or the answer."""


class MalformedAnswerError(ProviderError):
    """What came back is not what the protocol promises."""


class BudgetExhaustedError(EnvHarnessError):
    """The run's budget of tokens or money is spent. Nothing is lost; a larger budget lets the same command go on."""

    exit_code = 9


class SandboxUnavailableError(EnvHarnessError):
    """This system lacks what it takes to confine hook code."""

    exit_code = 6


class StoreError(EnvHarnessError):
    """The run folder or its database cannot be used."""

    exit_code = 7


class DamagedEntryError(StoreError):
    """One episode, job or record of a run is damaged; the others can be read."""


class RunLockedError(StoreError):
    """Another process holds the run folder; the message names it."""


class ConfigChangedError(StoreError):
    """The run was started with another configuration; the message says what differs."""
