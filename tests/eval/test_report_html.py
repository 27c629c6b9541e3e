from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from records import HOSTILE, words_collection, words_record

from rag.eval.report_html import html_report


class Page(HTMLParser):
    """What a browser would make of a page: its elements with attributes, its text, the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.text: list[str] = []
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):  # noqa: ARG002
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        else:
            self.text.append(data)


@pytest.fixture(scope="module")
def page():
    return html_report(words_record())


def test_what_comes_from_data_is_text(page):
    parsed = Page(page)
    assert len(parsed.scripts) == 2  # the data and our own
    assert not [element for element, _ in parsed.elements if element == "img"]
    assert not any(name.startswith("on") for _, attributes in parsed.elements for name in attributes)
    shown = "".join(parsed.text)
    assert "<b>mixed</b>" in shown
    assert HOSTILE in shown
    data = json.loads(parsed.scripts[0])
    assert data["titles"]["d0"].startswith("</script>")
    assert len(data["questions"]) == 10


def test_the_page_needs_nothing_else_and_allows_no_other_script(page):
    parsed = Page(page)
    assert not [of for _, of in parsed.elements if {"src", "href"} & of.keys()]
    assert not re.search(r"url\(|@import|https?://", page)
    policy = next(of["content"] for tag, of in parsed.elements if tag == "meta" and "http-equiv" in of)
    digest = base64.b64encode(hashlib.sha256(parsed.scripts[1].encode()).digest()).decode()
    assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy


def test_it_has_tables_bars_failures_and_the_explorer(page):
    parsed = Page(page)
    count = [tag for tag, _ in parsed.elements].count
    assert count("figure") == 2  # one per measure
    assert count("svg") == 2 * 3
    assert count("details") == 5 + 5  # five gains of each of the two systems that are compared
    assert {"explorer", "explorer-rows", "explorer-panel", "data"} <= {of.get("id") for _, of in parsed.elements}
    # What scrolls sideways can be reached with the keyboard.
    assert all(of.get("tabindex") == "0" for _, of in parsed.elements if of.get("class") == "scroll")


def test_a_synthetic_collection_is_marked():
    assert "no person judged them" in html_report(words_record(words_collection(synthetic=True)))


def test_a_record_without_single_queries_has_no_empty_explorer():
    record = {key: value for key, value in words_record().items() if key not in {"questions", "titles"}}
    page = html_report(record)
    assert "Where systems" not in page
    assert json.loads(Page(page).scripts[0])["questions"] == []
