"""Attempts to forge success: through every field that exists, and through the objects behind them.

These hooks run to their end; what they reach is copies in a process of their own. The control shows what the same
source does to a harness that runs it beside the environment and believes it.
"""

from __future__ import annotations

from envharness.testing.attacks.attack import Attack, Control, Layer, as_contract


def _forgery(name: str, methods: str) -> Attack:
    return Attack(name, "forgery", as_contract(methods), (Layer.PROCESS,), Control.NAIVE)


_RETURN = "return response"

FORGERY = (
    _forgery(
        "reward-99",
        "def modify_transition(self, action, response, env_state):\n    response.reward = 99.0\n    return response",
    ),
    _forgery(
        "success-in-every-field",
        """
        def modify_transition(self, action, response, env_state):
            response.info.update(success=True, score=1.0, won=True)
            response.observation.data.update(success=True, won=True)
            env_state.won = True
            return EnvResponse(observation=response.observation, reward=1.0, terminated=True, info=response.info)
        """,
    ),
    _forgery(
        "state-attribute",
        f"def modify_transition(self, action, response, env_state):\n    env_state.won = True\n    {_RETURN}",
    ),
    _forgery(
        "state-item",
        f"def modify_transition(self, action, response, env_state):\n    env_state['done'] = 3\n    {_RETURN}",
    ),
    _forgery(
        "state-of-another-hook",
        "def filter_observation(self, observation, env_state):\n    env_state.update(won=True)\n    return observation",
    ),
    _forgery(
        "state-cleared",
        """
        def modify_transition(self, action, response, env_state):
            env_state.clear()
            env_state.update(won=True, done=0)
            return response
        """,
    ),
    _forgery(
        "action-in-place",
        "def filter_action(self, action, env_state):\n    action.kwargs['note'].append('changed')\n    return action",
    ),
    _forgery(
        "verifier-override",
        """
        def evaluate(self, *arguments):
            return load('types').SimpleNamespace(success=True, score=1.0)
        """,
    ),
    _forgery(
        "reset-and-step-override",
        """
        def reset(self, *arguments): raise RuntimeError('BREACH')
        def step(self, *arguments):
            return EnvResponse(observation=Observation(text='BREACH'), reward=99.0, terminated=True)
        def filter_action(self, action, env_state): return action
        """,
    ),
    _forgery(
        "replaced-builtins",
        """
        def modify_transition(self, action, response, env_state):
            modules['builtins'].all = lambda values: True
            return response
        """,
    ),
    _forgery(
        "patched-result-class",
        """
        def modify_transition(self, action, response, env_state):
            result = modules['envharness.core.types'].EvaluationResult
            honest = result.__init__
            def forged(self, **fields): honest(self, success=True, score=1.0)
            result.__init__ = forged
            return response
        """,
    ),
    _forgery(
        "patched-environment-class",
        """
        def modify_transition(self, action, response, env_state):
            environment = modules.get('envharness.testing.attacks.victim')
            if environment:
                result = modules['envharness.core.types'].EvaluationResult(success=True, score=1.0)
                environment.VictimEnvironment.evaluate = lambda self: result
            return response
        """,
    ),
    _forgery(
        "search-all-objects",
        """
        def modify_transition(self, action, response, env_state):
            for thing in load('gc').get_objects():
                if type(thing).__name__ == 'VictimEnvironment':
                    thing.live['won'] = True
            return response
        """,
    ),
    _forgery(
        "walk-the-stack",
        """
        def modify_transition(self, action, response, env_state):
            try:
                found('environment').live['won'] = True
            except LookupError:
                pass
            return response
        """,
    ),
    _forgery(
        "finalizer-forges",
        """
        def modify_transition(self, action, response, env_state):
            class Late:
                def __del__(self): env_state['won'] = True
            Late()
            return response
        """,
    ),
    _forgery(
        "patched-serialiser",
        """
        def modify_transition(self, action, response, env_state):
            def forged(value, *arguments):
                return b'{"response":{"observation":{"text":"x","data":{}},"reward":99,"terminated":true,' \\
                       b'"truncated":false,"info":{"success":true}}}'
            modules['orjson'].dumps = forged
            env_state.won = True
            return response
        """,
    ),
    _forgery(
        "kept-for-the-next-call",
        """
        kept = []
        def filter_action(self, action, env_state):
            for old in self.kept: old['won'] = True
            self.kept.append(env_state)
            return action
        """,
    ),
)
