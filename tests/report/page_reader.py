"""Reads a report as a browser would, strictly: every element closed, and nothing in it that could load or run."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"br", "hr", "input", "link", "meta", "wbr"}
ALLOWED = frozenset(
    """html head title style body header main footer section article h1 h2 h3 h4 h5 h6 p a b strong span div dl dt dd
    figure figcaption table caption thead tbody tr th td ul ol li details summary pre code label input meta link
    svg rect line circle path text desc""".split()  # noqa: SIM905  a list of words reads best as words
)


@dataclass
class Page(HTMLParser):
    """The elements of a page, its text, and its text by the element it stands in."""

    source: str
    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list[tuple[str, dict[str, str | None]]])
    words: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    def __post_init__(self) -> None:
        HTMLParser.__init__(self, convert_charrefs=True)
        self.stack: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.stack == [], f"not closed: {self.stack}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append((self.stack[-1] if self.stack else "", data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data[:80]}")

    @property
    def text(self) -> str:
        """What a reader sees."""
        return "".join(text for element, text in self.words if element != "style")

    def ids(self) -> list[str]:
        """Every id, in order."""
        return [attributes["id"] or "" for _, attributes in self.elements if "id" in attributes]

    def check_harmless(self) -> None:
        """Assert that nothing on the page loads, runs or sends anything."""
        for name, attributes in self.elements:
            assert not any(key.startswith("on") or key in {"src", "srcset", "action", "srcdoc"} for key in attributes)
            href = attributes.get("href") or "#"
            assert href.startswith("#") or (name, href) == ("link", "data:,")
            style = attributes.get("style") or "--part:0"
            assert style.startswith("--part:")
        styles = "".join(text for element, text in self.words if element == "style")
        assert "url(" not in styles
        assert "@import" not in styles
