"""The token of all clusters that tests start: Ray reads it once in a process, whichever test comes first."""

from __future__ import annotations

import os
import secrets

os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
