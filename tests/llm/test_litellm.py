"""The client of litellm against the fault server: where the extra is installed, in a process of its own.

It is no part of the development group: 42 packages and about 300 MB for one client, and 12 s to import.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys

import pytest

from envharness.testing import fault_replies as replies
from envharness.testing.fault_server import FaultServer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="the extra litellm is not installed"),
]

CANARY = "sk-canary-0123456789"
ASK = """
import asyncio, sys
from envharness.core.errors import ProviderError
from envharness.llm.chat import ChatRequest, Message
from envharness.llm.config import Endpoint, ModelConfig
from envharness.llm.make import client_for

async def ask(url):
    endpoints = (Endpoint(base_url=url, api_key="env:LITELLM_TEST_KEY"),)
    config = ModelConfig(client="litellm", model="openai/m", endpoints=endpoints, retries=1, timeout_seconds=2)
    request = ChatRequest(messages=(Message(role="user", content="hi"),), seed=3)
    try:
        answer = await client_for(config).complete(request)
    except ProviderError as error:
        print(type(error).__name__, error)
    else:
        print(answer.text, answer.usage.prompt, answer.usage.completion)

for url in sys.argv[1:]:
    asyncio.run(ask(url))
"""
CASES = [
    (replies.answer("hey", prompt=1000), "hey 1000 5", 1),
    (replies.wrong_key(CANARY), "ProviderRefusedError", 1),
    (replies.unknown_model(), "ProviderRefusedError", 1),
    (replies.rate_limited("0.01"), "RateLimitError", 2),
    (replies.rate_limited("1e9"), "RateLimitError", 1),
    (replies.overloaded(), "OverloadedError", 2),
    (replies.hang(), "ProviderTimeoutError", 2),
    (replies.context_overflow(), "ContextTooLongError", 1),
    (replies.empty_choices(), "MalformedAnswerError", 2),
    (replies.filtered(), "ContentFilterError", 1),
]


def test_faults_have_the_classes_they_have_with_the_usual_client() -> None:
    servers = [FaultServer.replying(reply) for reply, _, _ in CASES]
    for server in servers:
        server.__enter__()
    try:
        environment = {**os.environ, "LITELLM_TEST_KEY": CANARY}
        arguments = [sys.executable, "-c", ASK, *(server.base_url for server in servers)]
        done = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120, check=False)
    finally:
        for server in servers:
            server.__exit__(None, None, None)
    lines = done.stdout.splitlines()
    assert len(lines) == len(CASES), done.stderr
    for line, server, (_, said, requests) in zip(lines, servers, CASES, strict=True):
        assert line.startswith(said)
        assert len(server.requests) == requests, line
    assert servers[0].requests[0].headers["authorization"] == f"Bearer {CANARY}"
    assert servers[0].requests[0].body["seed"] == 3
    assert CANARY not in done.stdout + done.stderr
