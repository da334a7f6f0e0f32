"""The conformance checks as a pytest suite that a bridge's author inherits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import pytest

from envharness.core.env import ActionableEnv
from envharness.core.spec import StackSpec
from envharness.testing.conformance import CHECKS, maker, run_check
from envharness.testing.conformance_subject import Subject


class ConformanceSuite(ABC):
    """One test a check. Inherit it in a test module and define `make_env`.

        class TestMyBridge(ConformanceSuite):
            def make_env(self) -> ActionableEnv:
                return make("my-bridge", task="first")

    A check that the declared capabilities make void is skipped with the reason.
    """

    seed: ClassVar[int] = 0
    """Given to reset."""
    max_steps: ClassVar[int] = 50
    """Bounds the actions of one play."""
    _subject: ClassVar[Subject]

    @abstractmethod
    def make_env(self) -> ActionableEnv | StackSpec:
        """Return a new environment at each call, or the stack that describes it."""

    @pytest.mark.parametrize("check", CHECKS)
    def test_conformance(self, check: str) -> None:
        """The environment keeps one promise."""
        result = run_check(check, self._subject_of_class())
        if result.status == "skip":
            pytest.skip(result.detail)
        if result.status == "fail":
            pytest.fail(f"{result.detail} (the promise: {CHECKS[check]})", pytrace=False)

    def _subject_of_class(self) -> Subject:
        """Return one subject for all checks of the class, so that the actions to play are looked for once."""
        cls = type(self)
        if "_subject" not in vars(cls):
            cls._subject = Subject(self._fresh, seed=self.seed, max_steps=self.max_steps)
        return cls._subject

    def _fresh(self) -> ActionableEnv:
        made = self.make_env()
        return maker(made)() if isinstance(made, StackSpec) else made
