"""What a run says about itself: one self-contained HTML page, and tables for the terminal."""

from envharness.report.page import write_report

__all__ = ["write_report"]
