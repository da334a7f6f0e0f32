"""The report in a real browser: a hostile trace neither runs nor changes what is around it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envharness.report import write_report
from envharness.report.text import visible
from report.page_reader import Page
from report.test_hostile import PAYLOADS, hostile_run


def rendered(browser: str, page: Path, profile: Path) -> str:
    """The document as the browser holds it after it has loaded and run everything."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--dump-dom"]
    return subprocess.run(
        [*command, page.as_uri()], capture_output=True, text=True, check=True, timeout=60, encoding="utf-8"
    ).stdout


@pytest.mark.slow
def test_a_browser_builds_only_what_the_report_wrote(chromium: str, tmp_path: Path) -> None:
    payload = "".join(PAYLOADS)
    with hostile_run(tmp_path / "run", payload) as store:
        write_report(store, tmp_path / "report.html")
    written = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    built = Page(rendered(chromium, tmp_path / "report.html", tmp_path / "profile"))
    assert [name for name, _ in built.elements] == [name for name, _ in written.elements]
    built.check_harmless()
    assert visible(payload)[:200] in built.text


@pytest.mark.slow
def test_the_page_forbids_scripts_even_where_escaping_failed(chromium: str, tmp_path: Path) -> None:
    """The second line of defence; without it, as the control shows, the script would run."""
    with hostile_run(tmp_path / "run", "x") as store:
        write_report(store, tmp_path / "report.html")
    source = (tmp_path / "report.html").read_text(encoding="utf-8")
    broken = source.replace("</main>", "</main><script>document.title = 'owned'</script>")
    (tmp_path / "broken.html").write_text(broken, encoding="utf-8")
    (tmp_path / "control.html").write_text(broken.replace("Content-Security-Policy", "nothing"), encoding="utf-8")
    assert "<title>owned</title>" in rendered(chromium, tmp_path / "control.html", tmp_path / "profile")
    assert "<title>owned</title>" not in rendered(chromium, tmp_path / "broken.html", tmp_path / "profile")
