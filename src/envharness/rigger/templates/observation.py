"""Clouded observations: cut short, with words struck out, with lists cut, or one turn late."""

from __future__ import annotations

from envharness.rigger.designers.base import Evidence
from envharness.rigger.records import Candidate
from envharness.rigger.templates.base import HITS, Template, key_of, source

BURIED_CHARACTERS = 1200
"""How much text stands before the news."""


_TRUNCATE = '''
class _Contract(Contract):
    """Shows the first part of each text. The structured copy would give it away, so it is left out."""

    def filter_observation(self, observation, env_state):
        shown = max(1, round(len(observation.text) * (1 - SHARE)))
        if shown >= len(observation.text):
            return observation
        return Observation(text=observation.text[:shown] + " [...]", data={})
'''

_REDACT = '''
def strike(match):
    """Strike out a word or number of the fixed share; the same one everywhere."""
    return "[?]" if hits(match[0]) else match[0]


class _Contract(Contract):
    """Strikes out a fixed share of the different words and numbers."""

    def filter_observation(self, observation, env_state):
        text = re.sub(r"\\d+|[A-Za-z]{4,}", strike, observation.text)
        return observation if text == observation.text else Observation(text=text, data={})
'''

_CAP = '''
def shorten(part):
    """Leave the fixed share of its items out of a part of the text that is a list."""
    items = part.split(", ")
    kept = [item.strip() for place, item in enumerate(items) if not hits(len(items), place)]
    if len(items) < SHORTEST or len(kept) == len(items):
        return part
    return f" {', '.join([*kept, f'and {len(items) - len(kept)} more'])}"


class _Contract(Contract):
    """Leaves a fixed share of the items out of each list of three or more."""

    def filter_observation(self, observation, env_state):
        text = "".join(shorten(part) for part in re.split(r"([\\n:.;])", observation.text))
        return observation if text == observation.text else Observation(text=text, data={})
'''

_DELAY = '''
class _Contract(Contract):
    """On a fixed share of turns the policy is shown what it should have been shown the turn before."""

    def filter_observation(self, observation, env_state):
        extras = env_state.extras
        extras["turn"] = extras.get("turn", 0) + 1
        late = extras.get("last")
        extras["last"] = {"text": observation.text, "data": dict(observation.data)}
        if late is None or not hits(extras["turn"]):
            return observation
        return Observation(text=late["text"], data=late["data"])
'''

_BURY = '''
class _Contract(Contract):
    """On a fixed share of turns the news stands below a long record of earlier screens."""

    def filter_observation(self, observation, env_state):
        extras = env_state.extras
        extras["turn"] = extras.get("turn", 0) + 1
        first = extras.setdefault("first", observation.text)
        if not hits(extras["turn"]):
            return observation
        record = "\\n".join([first.replace("\\n", " | ")] * RECORDS)
        text = f"Record of earlier screens:\\n{record}\\n\\nNow:\\n{observation.text}"
        return Observation(text=text, data=observation.data)
'''


def truncate(evidence: Evidence, magnitude: float) -> Candidate:
    """Cut `magnitude` of each text away."""
    del evidence
    why = f"The last {magnitude:.0%} of every text is gone: what stood there has to be remembered or asked for again."
    return _candidate("truncate_observation", source(_TRUNCATE, share=round(magnitude, 4)), magnitude, why)


def redact(evidence: Evidence, magnitude: float) -> Candidate:
    """Strike out `magnitude` of the different words and numbers."""
    text = source(_REDACT, HITS, key=key_of(evidence, "redact_observation"), share=round(magnitude, 4))
    why = f"A fixed {magnitude:.0%} of words and numbers is struck out: the policy has to infer or remember them."
    return _candidate("redact_observation", f"import re\n{text}", magnitude, why)


def cap(evidence: Evidence, magnitude: float) -> Candidate:
    """Leave `magnitude` of the items out of each list."""
    text = source(_CAP, HITS, key=key_of(evidence, "cap_lists"), share=round(magnitude, 4), shortest=3)
    why = f"About {magnitude:.0%} of the items of each list are left out: what is not shown has to be looked for."
    return _candidate("cap_lists", f"import re\n{text}", magnitude, why)


def delay(evidence: Evidence, magnitude: float) -> Candidate:
    """Show the screen of the turn before on `magnitude` of the turns."""
    text = source(_DELAY, HITS, key=key_of(evidence, "delay_observation"), share=round(magnitude, 4))
    why = f"On {magnitude:.0%} of turns the screen is one turn late: a policy must keep track of what it did."
    return _candidate("delay_observation", text, magnitude, why)


def bury(evidence: Evidence, magnitude: float) -> Candidate:
    """Put the news below a long record on `magnitude` of the turns."""
    start = next((e.start.shown.text for e in evidence.baseline if e.start is not None), "")
    records = max(2, BURIED_CHARACTERS // max(len(start), 1))
    text = source(_BURY, HITS, key=key_of(evidence, "bury_observation"), share=round(magnitude, 4), records=records)
    why = f"On {magnitude:.0%} of turns the news stands below a long record: a policy must read to the end."
    return _candidate("bury_observation", text, magnitude, why)


def _candidate(template: str, text: str, magnitude: float, rationale: str) -> Candidate:
    return Candidate(contract_source=text, template=template, magnitude=magnitude, rationale=rationale)


OBSERVATION = (
    Template("redact_observation", "words and numbers are struck out", "harden", ("one_path",), redact),
    Template("delay_observation", "the screen is one turn late", "harden", ("revisits_states",), delay),
    Template("cap_lists", "lists are cut", "harden", ("fixed_opening",), cap),
    Template("bury_observation", "the news stands below a long record", "harden", ("reads_only_the_start",), bury),
    Template("truncate_observation", "texts are cut short", "harden", ("reads_only_the_start",), truncate),
)
