"""For authors of bridges and components: conformance checks, an inheritable pytest suite (`testing.suite`), attacks."""

from envharness.testing.conformance import CHECKS, CheckReport, CheckResult, check_env

__all__ = ["CHECKS", "CheckReport", "CheckResult", "check_env"]
