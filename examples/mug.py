"""Three components around one frozen household: hide the mug, forbid a shortcut, join two tasks.

Needs the alfworld extra; the two games ship with the package.
"""

from __future__ import annotations

from envharness import Action, Chain, Contract, Stage, make


def act(command: str) -> Action:
    """Return one command of the household."""
    return Action(name="act", kwargs={"command": command})


# Frozen: "put a mug in desk", and the mug stands on the countertop in plain sight.
frozen = make("alfworld", task="builtin/mug-to-desk")

# A Stage moves the start by replaying actions: now the mug is in a closed drawer.
hidden = Stage(
    frozen,
    [
        act("go to countertop 1"),
        act("take mug 1 from countertop 1"),
        act("go to drawer 1"),
        act("open drawer 1"),
        act("move mug 1 to drawer 1"),
        act("close drawer 1"),
        act("go to shelf 1"),
    ],
)

# A Contract rewrites the rules. Its source is text, and runs in a process that can reach nothing.
one_look = Contract(
    hidden,
    source='''
class _Contract(Contract):
    """Looking around is free once; after that the agent has to remember."""

    def filter_action(self, action, env_state):
        if action.kwargs.get("command") == "look":
            if env_state.extras.get("looked"):
                return Blocked(reason="You have looked around already. Remember what you saw.")
            env_state.extras["looked"] = True
        return action
''',
)

# A Chain joins two tasks into one episode: it is won where both verifiers say so.
shift = Chain([one_look, make("alfworld", task="builtin/clean-cup-to-shelf")])

with shift as env:
    print(env.reset(seed=0).observation.text)
    for command in ("look", "look", "go to drawer 1", "open drawer 1", "take mug 1 from drawer 1", "go to desk 1"):
        print(f"\n> {command}\n{env.step(act(command)).observation.text.splitlines()[0]}")
    print(f"\n> move mug 1 to desk 1\n{env.step(act('move mug 1 to desk 1')).observation.text}")
    print("\nwon?", env.evaluate().success, "- there is still work to do:", env.get_env_state()["goal"])
