"""The LLM designer: asks a model for a diagnosis, then for a candidate, and tells it what came of the last one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, TypeVar

from pydantic import JsonValue

from envharness.core.errors import ConfigError
from envharness.core.policy import PolicySpec
from envharness.core.trace import Episode
from envharness.core.types import Action
from envharness.llm.chat import Message, whole
from envharness.llm.config import ModelConfig
from envharness.rigger.designers.base import DesignAttempt, Evidence, Proposal
from envharness.rigger.designers.llm_answers import (
    UnusableAnswerError,
    WrittenCandidate,
    WrittenDiagnosis,
    read_candidate,
    read_diagnosis,
    read_labels,
)
from envharness.rigger.designers.llm_conversation import Conversation, NoAnswerError, TooLongError
from envharness.rigger.designers.llm_forms import DIAGNOSIS_TOOL, FORMS, LABELS_TOOL, AnswerForm, candidate_tool
from envharness.rigger.designers.llm_model import choose_model, read_sampling
from envharness.rigger.designers.llm_prompts import (
    candidate_prompt,
    diagnosis_prompt,
    how_to_answer,
    known_labels,
    prompt,
    system_prompt,
)
from envharness.rigger.fence import fence
from envharness.rigger.records import Candidate, Diagnosis, FailureLabel, Prediction, Round
from envharness.rigger.render import LEAST_TOKENS, render_episode, render_evidence
from envharness.rigger.requests import Work

LEAST_SHOWN = 120
"""Tokens of a lost rollout below which it is not labelled: what is left of it says nothing."""
SHRINKS = 3
"""Sizes of the evidence tried where it does not fit the model: all of the budget, half, a quarter."""

_FORM_BESIDE_FORMAT: dict[str, AnswerForm] = {"json_schema": "json_schema", "text": "json", "think_action": "json"}
"""The form that suits a model which plays in a format without tool calls."""

Read = TypeVar("Read")


class LanguageModelDesigner:
    """Asks a model for a diagnosis, then for a candidate, with all evidence so far.

    An answer without a candidate is a failed check and is told to the next attempt. Diagnosis and labels of failures
    inform what is written; they take no part in any verdict.
    """

    takes_policy: ClassVar[bool] = True
    """`build_designer` passes the policy, whose model is the default."""
    name: ClassVar[str] = "llm"

    def __init__(
        self,
        *,
        policy: PolicySpec | None = None,
        model: JsonValue = None,
        sampling: JsonValue = None,
        answer_form: AnswerForm | None = None,
        instructions: str = "",
        evidence_tokens: int = 12_000,
        patience: int = 2,
        label_failures: bool = True,
    ) -> None:
        """Choose the model and what it is told.

        Args:
            policy: The run's policy; its option `model` is the default.
            model: A model's configuration, or None for the policy's.
            sampling: `temperature`, `top_p`, `max_tokens`, `stop` of the designer's calls, over those of the model: a
                policy's limit of tokens seldom holds a component. None, or what is left out, is the model's.
            answer_form: `tool`, `json_schema` or `json`; None is `tool`, unless the policy shares the model and plays
                without tool calls itself.
            instructions: What the model should know about this benchmark, put at the end of the system prompt.
            evidence_tokens: Budget of the evidence, estimated, 800 or more. Prompts come on top, about 2500.
            patience: Rounds in a row, 1 or more, without one usable candidate after which the task is given up.
            label_failures: Whether lost rollouts are labelled after each batch: one call more a batch.

        Raises:
            ConfigError: an option is out of range, or there is no model to ask.
        """
        if evidence_tokens < LEAST_TOKENS or patience < 1:
            raise ConfigError(f"designer {self.name!r}: evidence_tokens >= {LEAST_TOKENS} and patience >= 1 are needed")
        if instructions != whole(instructions):
            raise ConfigError(f"designer {self.name!r}: instructions hold half of a character (a lone surrogate)")
        if answer_form is not None and answer_form not in FORMS:
            raise ConfigError(f"designer {self.name!r}: answer_form must be one of {', '.join(FORMS)}")
        self._model = choose_model(self.name, model, policy)
        self._sampling = read_sampling(sampling)
        self._form: AnswerForm = answer_form or _form_of(policy if model is None else None)
        self._instructions = instructions
        self._tokens = evidence_tokens
        self._patience = patience
        self._labels_failures = label_failures

    @property
    def model(self) -> ModelConfig:
        """The model that is asked."""
        return self._model

    # --- the contract of an asking designer --------------------------------------------------------------------------

    def write(self, evidence: Evidence, attempt: DesignAttempt) -> Work[Proposal]:
        """Diagnose once a round, then write; again with less evidence where it does not fit the model."""
        last = evidence.rounds[-1] if evidence.rounds else None
        if last is not None and last.verdict == "incomplete":
            # Nothing was learnt about it, so it is asked again, with fresh rollouts.
            return Proposal(last.candidate, diagnosis=last.diagnosis, prediction=last.prediction)
        if reason := self._out_of_patience(evidence, attempt):
            return Proposal(gave_up=reason)
        try:
            return (yield from self._shrinking(lambda tokens: self._write(evidence, attempt, tokens)))
        except UnusableAnswerError as error:
            diagnosis, prediction = _written_in_round(evidence, attempt.round)
            return Proposal(problem=str(error), diagnosis=diagnosis, prediction=prediction)
        except NoAnswerError as error:
            return Proposal(unanswered=str(error))

    def label_failures(
        self, evidence: Evidence, episodes: Sequence[Episode], attempt: DesignAttempt
    ) -> Work[tuple[FailureLabel, ...] | None]:
        """Have the losses labelled in one call; None where the model does not, for whatever reason."""
        lost = [episode for episode in episodes if episode.valid and not episode.success]
        if not self._labels_failures or not lost:
            return None if lost else ()
        try:
            return (yield from self._shrinking(lambda tokens: self._label(evidence, lost, attempt, tokens)))
        except (UnusableAnswerError, NoAnswerError):
            return None

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, evidence: Evidence, attempt: DesignAttempt, tokens: int) -> Work[Proposal]:
        before = tuple(entry for entry in evidence.rounds if entry.number < attempt.round)
        failed = evidence.rounds[len(before) :]
        opening = render_evidence(replace(evidence, rounds=before), tokens)
        conversation = self._begin(evidence, attempt, system_prompt(self._instructions)).say("user", opening)
        diagnosis, prediction = _written_in_round(evidence, attempt.round)
        if diagnosis is None:
            conversation = conversation.say(
                "user", diagnosis_prompt(evidence, failed, how_to_answer(self._form, DIAGNOSIS_TOOL))
            )
            answer = yield from conversation.ask("diagnose", DIAGNOSIS_TOOL)
            written = read_diagnosis(answer, _shown(evidence))
            diagnosis, prediction = _diagnosis(written, evidence), written.prediction
            failed = ()
        conversation = conversation.say("assistant", _as_said(diagnosis))
        try:
            candidate = yield from self.write_candidate(evidence, conversation, failed)
        except UnusableAnswerError as error:
            return Proposal(problem=str(error), diagnosis=diagnosis, prediction=prediction)
        made = Candidate(
            in_env_actions=[Action(name=action.name, kwargs=action.kwargs) for action in candidate.in_env_actions],
            contract_source=candidate.contract_source,
            rationale=candidate.rationale,
        )
        return Proposal(made, diagnosis=diagnosis, prediction=prediction)

    def write_candidate(
        self, evidence: Evidence, conversation: Conversation, failed: Sequence[Round]
    ) -> Work[WrittenCandidate]:
        """Ask for the candidate. Raises UnusableAnswerError where the answer holds none."""
        tool = candidate_tool(evidence.tools)
        conversation = conversation.say("user", candidate_prompt(failed, how_to_answer(self._form, tool)))
        return read_candidate((yield from conversation.ask("write", tool)))

    def _out_of_patience(self, evidence: Evidence, attempt: DesignAttempt) -> str:
        """Return why the task is given up: the last rounds brought no answer that could be checked at all."""
        recent = range(attempt.round - self._patience, attempt.round)
        if attempt.number or recent.start < 1:
            return ""
        checks = [
            [check for entry in evidence.rounds if entry.number == number for check in entry.checks]
            for number in recent
        ]
        if any(check.id != "answer" for found in checks for check in found):
            return ""
        last = f"; the last: {checks[-1][-1].detail}" if checks[-1] else ""
        return f"no usable answer of the designer in {self._patience} rounds{last}"

    def _label(
        self, evidence: Evidence, lost: Sequence[Episode], attempt: DesignAttempt, tokens: int
    ) -> Work[tuple[FailureLabel, ...]]:
        lost = lost[: max(tokens // LEAST_SHOWN, 1)]
        share = tokens // len(lost)
        shown = [
            fence(render_episode(episode, share), f"lost rollout {episode.index}, {episode.outcome.reason}")
            for episode in lost
        ]
        request = f"{how_to_answer(self._form, LABELS_TOOL)}\n\n" + "\n\n".join(shown)
        system = prompt("failures", labels=known_labels(evidence))
        conversation = self._begin(evidence, attempt, system).say("user", request)
        answer = yield from conversation.ask("failures", LABELS_TOOL)
        return read_labels(answer, [episode.index for episode in lost])

    def _begin(self, evidence: Evidence, attempt: DesignAttempt, system: str) -> Conversation:
        return Conversation(
            model=self._model,
            form=self._form,
            task=evidence.task,
            seed=evidence.seed,
            attempt=attempt,
            messages=(Message(role="system", content=system),),
            sampling=self._sampling,
        )

    def _shrinking(self, work: Callable[[int], Work[Read]]) -> Work[Read]:
        """Do `work` with the whole budget of evidence, then with less as long as the model's context is too short."""
        for size in range(SHRINKS - 1):
            try:
                return (yield from work(self._tokens >> size))
            except TooLongError:
                continue
        return (yield from work(self._tokens >> (SHRINKS - 1)))


def _form_of(policy: PolicySpec | None) -> AnswerForm:
    """Return the form that suits the policy's model: one that plays without tool calls may have none."""
    played = policy.options.get("format") if policy is not None else None
    return _FORM_BESIDE_FORMAT.get(str(played), "tool")


def _shown(evidence: Evidence) -> dict[int, int]:
    """Return the turns of each rollout that a diagnosis may cite."""
    return {episode.index: len(episode.steps) for episode in evidence.latest or evidence.baseline}


def _written_in_round(evidence: Evidence, number: int) -> tuple[Diagnosis | None, Prediction | None]:
    """Return the diagnosis that an earlier attempt of the round wrote; only a written one comes with a prediction."""
    for entry in evidence.rounds:
        if entry.number == number and entry.prediction is not None:
            return entry.diagnosis, entry.prediction
    return None, None


def _diagnosis(written: WrittenDiagnosis, evidence: Evidence) -> Diagnosis:
    places = [
        f"rollout {cited.rollout}, {'step' if len(cited.steps) == 1 else 'steps'} "
        f"{', '.join(map(str, cited.steps))}: {cited.what}"
        for cited in written.evidence
    ]
    return Diagnosis(
        flaw=written.flaw,
        text=written.explanation,
        direction=written.direction,  # pyright: ignore[reportArgumentType]  the pattern allows these three only
        evidence=places,
        scores=evidence.diagnosis.scores,
    )


def _as_said(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as the model's own turn: the same whether it was just written or in an earlier attempt."""
    said = {"flaw": diagnosis.flaw, "explanation": diagnosis.text, "evidence": diagnosis.evidence}
    return json.dumps(said, ensure_ascii=False)
