"""How many tokens a text takes, estimated without a tokenizer: rather too high than too low."""

from __future__ import annotations

BYTES_A_TOKEN = 3
"""Bytes of UTF-8 counted as a token: on the high side for prose in every language, about right for code and digits."""


def text_tokens(text: str) -> int:
    """Estimate how many tokens a text takes."""
    return -(-len(text.encode("utf-8", "replace")) // BYTES_A_TOKEN)
