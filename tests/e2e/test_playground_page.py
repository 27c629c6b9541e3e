"""The playground as a person meets it: run the example, read the answer, hit an error, copy the request."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from serving import served

from rag.api.app import create_app
from rag.api.keys import new_key
from rag.config import Settings

DOCS = Path(__file__).parents[2] / "docs"
PHONE = {"width": 390, "height": 844}
CONTRAST = (Path(__file__).parent / "contrast.js").read_text("utf-8")
HARBOUR = [
    "The quay was built in 1871. The harbour is fourteen metres deep at low tide. Gulls nest on its wall.",
    "Boats are painted blue every spring.",
    "Bread is baked before dawn. The baker sleeps at noon.",
]
QUESTION = "How deep is the harbour?"

Open = Callable[..., Any]


def done(page: Any) -> None:
    page.get_by_text("Done in", exact=False).wait_for()


def ask(page: Any, query: str, documents: str, **options: str) -> None:
    page.get_by_label("Question").fill(query)
    page.locator("#documents").fill(documents)
    for name, value in options.items():
        page.locator(f"#{name}").fill(value)
    page.get_by_role("button", name="Run").click()


def too_wide(page: Any) -> int:
    """By how many pixels the page is wider than the window."""
    wide: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wide


def test_the_example_shows_what_the_service_answers(service: str, open_page: Open) -> None:
    page = open_page(service, reduced_motion="reduce")
    page.get_by_role("button", name="Load an example").click()
    done(page)
    example = httpx.get(f"{service}/playground/example.json").json()
    body = {"query": example["queries"][0], "documents": example["documents"], "budget": 160}
    answer = httpx.post(f"{service}/v1/context", json=body, timeout=300).json()
    assert page.get_by_label("Question").input_value() == body["query"]

    stages = page.locator("#stages .done b").all_inner_texts()
    assert stages == ["Retrieved", "Reranked", "Compressed", "Ordered"]
    rows = page.locator("#ranking tbody tr")
    assert rows.count() == answer["stages"][0]["documents_out"] == 20
    order = [item["index"] for item in answer["results"]]
    shown = [int(row.get_attribute("data-index")) for row in rows.all()]
    assert shown[: len(order)] == order
    assert page.locator("#ranking tbody tr.kept").count() == len(order)

    texts = {document["id"]: document["text"] for document in example["documents"]}
    for item, article in zip(answer["results"], page.locator("article.reading").all(), strict=True):
        kept = [texts[item["id"]][slice(*part["span"])] for part in item["sentences"] if part["kept"]]
        assert article.locator(".passage mark").all_text_contents() == kept
        assert article.locator(".passage").first.text_content() == texts[item["id"]]
    assert page.locator("#context").text_content() == answer["context"]
    assert page.locator("#dropped > li:not(.more), #dropped details li").count() == len(answer["dropped"])
    assert f"{answer['usage']['context_tokens']}" in page.locator("#totals").inner_text()
    assert page.locator("#timings li").count() == 6

    page.get_by_role("button", name="The attention behind this score").first.click()
    page.locator(".heat").wait_for()
    best = answer["results"][0]
    assert page.locator(".heat").text_content() == texts[best["id"]]
    assert page.locator(".heat .heat-5").count() >= 1
    assert too_wide(page) == 0
    page.evaluate("scrollTo(0, 0)")
    page.set_viewport_size({"width": 1440, "height": 1500})
    page.screenshot(path=DOCS / "playground.png")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_scrolling_sideways_and_all_text_can_be_read(
    service: str, open_page: Open, scheme: str
) -> None:
    page = open_page(service, size=PHONE, color_scheme=scheme, reduced_motion="reduce")
    assert too_wide(page) == 0
    page.get_by_role("button", name="Load an example").click()
    done(page)
    page.get_by_role("button", name="The attention behind this score").first.click()
    page.locator(".heat").wait_for()
    page.get_by_text("The context as one string").click()
    assert too_wide(page) == 0
    assert page.evaluate(
        "document.querySelector('#ranking').scrollWidth <= document.querySelector('.scroll').clientWidth"
    )
    assert page.evaluate(CONTRAST) == []
    if scheme == "light":
        page.set_viewport_size({"width": PHONE["width"], "height": 1600})
        page.evaluate("document.getElementById('stages').scrollIntoView()")
        page.screenshot(path=DOCS / "playground-mobile.png")


def test_the_contrast_check_finds_what_cannot_be_read(service: str, open_page: Open) -> None:
    page = open_page(service)
    page.evaluate("document.querySelector('.top p').style.setProperty('color', '#aab')")
    assert len(page.evaluate(CONTRAST)) == 1


@pytest.mark.parametrize(
    ("query", "documents", "options", "told"),
    [
        (" ", "d", {}, "query is empty"),
        (QUESTION, "d", {"top_n": "many"}, "top_n: must be a whole number"),
        (QUESTION, "d", {"budget": "0"}, "budget"),
        (QUESTION, '{"txt": "d"}', {}, "is not a known field; accepted: id, text, title, metadata"),
        (QUESTION, '{"text": "d"}\n{"text": }', {}, "line 2 of the documents is not JSON"),
        (QUESTION, '{"id": "a", "text": "d"}\n{"id": "a", "text": "e"}', {}, "must be unique"),
    ],
)
def test_an_error_is_told_in_the_words_of_the_service(
    service: str, open_page: Open, query: str, documents: str, options: dict[str, str], told: str
) -> None:
    page = open_page(service, refusals=True)
    ask(page, query, documents, **options)
    alert = page.get_by_role("alert")
    alert.wait_for()
    assert told in alert.inner_text()
    assert page.locator("#stop").is_hidden()
    for field in options:
        page.locator(f"#{field}").fill("")
    ask(page, QUESTION, "\n".join(HARBOUR))  # and the page goes on working
    done(page)
    assert alert.is_hidden()


def test_text_is_shown_as_text_and_marked_at_the_right_characters(service: str, open_page: Open) -> None:
    """Markup in a document is not run, and a 🐟, two units of JavaScript's, does not move what is marked."""
    hostile = '<img src=x onerror="alert(1)"> 🐟🐟 The harbour is fourteen metres deep.  <b>Gulls</b> 🐟 nest there.'
    documents = [{"id": "<i>x</i>", "title": "<script>alert(2)</script>", "text": hostile}, *HARBOUR[1:]]
    body = {"query": QUESTION, "documents": documents, "top_n": 1, "budget": "60%"}
    (found,) = httpx.post(f"{service}/v1/context", json=body, timeout=300).json()["results"]
    kept = [hostile[slice(*part["span"])] for part in found["sentences"] if part["kept"]]
    assert 0 < len(kept) < len(found["sentences"])
    page = open_page(service)
    ask(page, QUESTION, "\n".join(map(json.dumps, documents)), top_n="1", budget="60%")
    done(page)
    assert page.locator(".passage").first.text_content() == hostile
    assert page.locator(".passage mark").all_text_contents() == kept
    assert (
        page.locator(".passage img, .passage b, .reading script, .reading i, #ranking script, #ranking i").count() == 0
    )
    page.get_by_role("button", name="The attention behind this score").click()
    page.locator(".heat").wait_for()
    assert page.locator(".heat").text_content() == hostile


def test_the_snippets_reproduce_the_answer(service: str, open_page: Open) -> None:
    page = open_page(service, permissions=["clipboard-read", "clipboard-write"])
    tricky = [f"It's \"quoted\" \\ $HOME `id` 🐟 'end'. {HARBOUR[0]}", *HARBOUR[1:]]
    ask(page, QUESTION, "\n".join(tricky), top_n="2", budget="50%")
    done(page)
    shown = page.locator("#context").text_content()
    page.get_by_role("button", name="Copy the curl command").click()
    page.get_by_role("button", name="Copied").wait_for()
    copied = page.evaluate("navigator.clipboard.readText()")
    by_curl = json.loads(subprocess.check_output(["bash", "-c", copied]))
    assert by_curl["context"] == shown
    python = page.locator("#python").text_content()
    by_python = subprocess.check_output([sys.executable, "-P", "-c", python], text=True)
    assert by_python.startswith(shown)


def test_a_stored_corpus_can_be_asked(service: str, open_page: Open) -> None:
    documents = [{"id": f"d{place}", "text": text} for place, text in enumerate(HARBOUR)]
    httpx.put(f"{service}/v1/corpora/harbour", json={"documents": documents}).raise_for_status()
    page = open_page(service)
    page.get_by_label("A stored corpus").check()
    page.get_by_text("harbour (3 documents)").wait_for(state="attached")
    page.get_by_label("Question").fill(QUESTION)
    page.locator("#top_n").fill("1")
    page.keyboard.press("Enter")
    done(page)
    assert "fourteen metres" in page.locator(".passage mark").first.text_content()
    assert "/v1/corpora/harbour/search" in page.locator("#curl").text_content()
    assert "client.search(" in page.locator("#python").text_content()


def test_a_key_is_asked_for_and_kept_out_of_sight(open_page: Open) -> None:
    key, digest = new_key()
    with served(create_app(Settings(server={"keys": [{"name": "page", "sha256": digest}]}))) as url:
        page = open_page(url, refusals=True)
        ask(page, QUESTION, HARBOUR[0])
        page.get_by_role("alert").wait_for()
        assert "no API key given" in page.get_by_role("alert").inner_text()
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Run").click()
        done(page)
        page.get_by_role("button", name="The attention behind this score").click()
        page.locator(".heat").wait_for()
        assert "$RAG_API_KEY" in page.locator("#curl").text_content()
        assert key not in page.content()
        assert page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length") == 0


def test_the_keyboard_alone_is_enough(service: str, open_page: Open) -> None:
    page = open_page(service)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the results"
    visited = []
    fields = ["example", "query", "source", "documents", "format", "top_n", "retrieve_k", "budget", "key", "run"]
    for _ in fields:
        page.keyboard.press("Tab")
        visited.append(page.evaluate("document.activeElement.id || document.activeElement.name"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", visited
    assert visited == fields
