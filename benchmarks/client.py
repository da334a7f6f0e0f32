"""What the model client adds to a call, and what importing the way to a model costs."""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
from time import perf_counter, process_time

from benchmarks import Figure, at_most
from benchmarks.model_server import model_server
from envharness.llm.chat import ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig
from envharness.llm.make import client_for

CALLS = 3000
CONCURRENCY = 64
PROMPT = "You see a mug on a desk. " * 40


def measure() -> dict[str, Figure]:
    """A prompt of 1,000 characters at concurrency 64, against a local server that answers at once.

    CPU is this process's own, whatever else the machine does. Wall time a call is the server's, too, where both share a
    processor.
    """
    with model_server() as url:
        wall, cpu = asyncio.run(_ask_often(url))
    imports = _cpu_seconds("import envharness.llm.make, envharness.llm.openai_client, aiohttp")
    return {
        "client_cpu_ms_a_call": at_most(cpu * 1e3, "ms", 2.0),
        "client_wall_ms_a_call": Figure(wall * 1e3, "ms"),
        "client_import_cpu_seconds": at_most(imports - _cpu_seconds("pass"), "s", 2.0),
    }


async def _ask_often(url: str) -> tuple[float, float]:
    client = client_for(ModelConfig(model="m", endpoints=(Endpoint(base_url=url, concurrency=CONCURRENCY),)))
    request = ChatRequest(messages=(Message(role="user", content=PROMPT),))
    await asyncio.gather(*(client.complete(request) for _ in range(CONCURRENCY)))
    began, cpu = perf_counter(), process_time()
    await asyncio.gather(*(client.complete(request) for _ in range(CALLS)))
    return (perf_counter() - began) / CALLS, (process_time() - cpu) / CALLS


def _cpu_seconds(code: str) -> float:
    """Return the median of the processor time of whole processes."""

    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return statistics.median(once() for _ in range(5))
