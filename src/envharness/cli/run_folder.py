"""What commands that make a run share: the folder's database, an engine, progress, and an orderly stop."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from envharness.cli.output import say
from envharness.core.errors import EnvHarnessError
from envharness.core.types import JsonDict
from envharness.core.version import VERSION
from envharness.rollouts.engine import RETRIES, Backend, Engine, make_engine
from envharness.rollouts.interrupts import StopRequest, orderly_stop
from envharness.rollouts.ledger import describe_usage, read_ledger
from envharness.rollouts.progress import Progress, make_progress
from envharness.rollouts.sizing import Count, read_count
from envharness.sandbox import require_sandbox
from envharness.store.database import RunStore


class EngineConfig(BaseModel):
    """Where rollouts run. None of it changes what a run contains, so it may differ when a run is resumed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    backend: Backend = "pool"
    workers: Annotated[Count, PlainValidator(read_count)] = "auto"
    """The most worker processes; `auto` is one a core, and fewer where memory or a model's endpoints are small."""
    episodes_per_worker: Annotated[Count, PlainValidator(read_count)] = "auto"
    """Episodes that a worker plays at once; `auto` is one where policies compute, and what the endpoints take where
    they wait for a model."""
    ray_address: str | None = Field(default=None, pattern=r"^[^\s/:]+:[0-9]{1,5}$|^\[[0-9a-fA-F:]+\]:[0-9]{1,5}$")
    """`host:port` of the Ray cluster to join, for the backend `ray`; None starts one on this machine."""
    retries: int = Field(default=RETRIES, ge=0, le=20)
    """Attempts beyond the first for an episode that the machinery lost."""


@dataclass(frozen=True)
class OpenRun:
    """A run that is being worked on."""

    store: RunStore
    engine: Engine
    progress: Progress
    stop: StopRequest
    unsafe_hooks: bool


@contextmanager
def open_run(
    folder: Path,
    engine: EngineConfig,
    *,
    config: JsonDict,
    command: str,
    resume: bool,
    unsafe_hooks: bool,
    grace_seconds: float,
) -> Generator[OpenRun]:
    """Start or go on with the run in `folder`, whose content `config` decides.

    A first SIGINT or SIGTERM finishes and keeps what is in flight, for `grace_seconds` at most, before it ends the run.
    """
    if not unsafe_hooks:
        require_sandbox()
    with (
        orderly_stop(grace_seconds, say) as stop,
        RunStore.open(folder, config=config, command=command, resume=resume) as store,
        make_engine(
            engine.backend,
            workers=engine.workers,
            retries=engine.retries,
            unsafe_hooks=unsafe_hooks,
            episodes_per_worker=engine.episodes_per_worker,
            ray_address=engine.ray_address,
        ) as built,
        make_progress(sys.stderr) as progress,
    ):
        if store.version != VERSION:
            say(f"{folder} was begun with envharness {store.version}; this is {VERSION}, which goes on with it")
        try:
            yield OpenRun(store, built, progress, stop, unsafe_hooks)
        except EnvHarnessError:
            _say_usage(store, progress)
            # What stopped it may be the configuration itself, which must not bind a folder that holds nothing yet.
            store.forget_empty()
            raise
        _say_usage(store, progress)


def _say_usage(store: RunStore, progress: Progress) -> None:
    for role, usage in read_ledger(store).by_role().items():
        progress.say(f"{role}: {describe_usage(usage)}")
