from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag.budget import Budget
from rag.config import BudgetSettings, Settings
from rag.errors import ConfigError


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith("RAG_"):
            monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rag.yaml"
    path.write_text("top_n: 3\nretrieve_k: 30\nengine: {layout: causal, window_tokens: 256}\nreranker: icr\n")
    return path


def test_a_file_is_weaker_than_the_environment_is_weaker_than_arguments(file, monkeypatch):
    assert Settings.load(file).top_n == 3
    monkeypatch.setenv("RAG_TOP_N", "4")
    assert Settings.load(file).top_n == 4
    settings = Settings.load(file, top_n=6)
    assert (settings.top_n, settings.retrieve_k) == (6, 30)


def test_sections_are_merged_key_by_key(file, monkeypatch):
    monkeypatch.setenv("RAG_ENGINE__WINDOW_TOKENS", "300")
    engine = Settings.load(file, engine={"cache_bytes": "1GiB"}).engine
    assert (engine.layout, engine.window_tokens, engine.overlap_tokens, engine.cache_bytes) == (
        "causal",
        300,
        64,
        1 << 30,
    )


def test_rag_config_names_the_file_and_load_is_not_sticky(file, monkeypatch):
    assert Settings.load(file).top_n == 3
    assert Settings().top_n == 5
    monkeypatch.setenv("RAG_CONFIG", str(file))
    assert Settings().top_n == 3


@pytest.mark.parametrize("text", ["null", "none", "None"])
def test_a_stage_is_turned_off_from_the_environment(monkeypatch, text):
    monkeypatch.setenv("RAG_RERANKER", text)
    assert Settings().reranker is None


def test_a_stage_by_name_or_with_options(monkeypatch):
    assert Settings(ordering="reversed").ordering == Settings(ordering={"name": "reversed"}).ordering
    monkeypatch.setenv("RAG_RETRIEVER", "{name: bm25, options: {k1: 1.2}}")
    assert str(Settings().retriever) == "bm25(k1=1.2)"
    monkeypatch.setenv("RAG_RETRIEVER__OPTIONS__B", "0.5")
    assert Settings().retriever.options == {"k1": 1.2, "b": "0.5"}


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        (512, Budget(512)),
        ("512", Budget(512)),
        ("300 tokens", Budget(300)),
        ("2000 characters", Budget(2000, "characters")),
        ("50%", Budget(0.5, "ratio")),
        ("100%", Budget(1, "ratio")),
        (0.25, Budget(0.25, "ratio")),
        ({"amount": 0.5, "unit": "ratio"}, Budget(0.5, "ratio")),
        (Budget(7, "characters"), Budget(7, "characters")),
        ("none", None),
        (None, None),
    ],
)
def test_budget_forms(given, budget):
    settings = Settings(budget=given)
    assert (settings.budget and settings.budget.budget()) == budget


@given(st.one_of(st.integers(1, 10**6), st.floats(0.001, 0.999)), st.sampled_from(["tokens", "characters", "ratio"]))
def test_a_budget_prints_in_a_form_it_reads(amount, unit):
    amount = min(amount, 1) if unit == "ratio" else max(1, int(amount))
    budget = BudgetSettings(amount=amount, unit=unit)
    assert BudgetSettings.model_validate(str(budget)).amount == pytest.approx(amount, rel=1e-4)
    assert BudgetSettings.model_validate(str(budget)).unit == unit


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        ({"foo": 1}, ["foo", "given 1", "accepted: model, embedder"]),
        ({"engine": {"lay": "block"}}, ["engine.lay", "'block'", "layout, window_tokens"]),
        ({"engine": {"layout": "tree"}}, ["engine.layout", "'block' or 'causal'", "given 'tree'"]),
        ({"engine": {"window_tokens": 64}}, ["overlap_tokens must be below half of window_tokens (64)", "given 64"]),
        ({"reranker": {"name": "icr", "alpha": 1}}, ["reranker.alpha", "accepted: name, options"]),
        ({"reranker": {"options": {}, "name": ""}}, ["reranker.name", "given ''"]),
        ({"budget": "lots"}, ["budget", "accepted forms", "'lots'"]),
        ({"budget": "150%"}, ["budget", "(0, 1]", "1.5"]),
        ({"budget": float("inf")}, ["budget.amount", "finite"]),
        ({"budget": True}, ["budget", "True"]),
        ({"top_n": 0}, ["top_n", "greater than 0", "given 0"]),
        ({"device": "tpu"}, ["device", "'auto', 'cpu', 'cuda' or 'mps'", "'tpu'"]),
        ({"server": {"port": 70000}}, ["server.port", "65535", "70000"]),
        ({"context_template": "{title}"}, ["context_template", "{text} exactly once"]),
        ({"context_template": "{text}{id.__class__}"}, ["context_template", "{number}"]),
        ({"context_template": "{text"}, ["context_template", "expected '}'"]),
    ],
)
def test_a_bad_value_is_one_error_with_path_given_and_accepted(values, parts):
    with pytest.raises(ConfigError) as caught:
        Settings(**values)
    assert [part for part in parts if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("- a\n- b\n", "must be a mapping"),
        ("top_n: [1\n", "line 2"),
        (b"\xff\xfe\xfa", "cannot read"),
        (None, "No such"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, part):
    path = tmp_path / "broken.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as caught:
        Settings.load(path)
    assert "broken.yaml" in str(caught.value)
    assert part in str(caught.value)


def test_environment_text_that_is_not_yaml_is_one_error(monkeypatch):
    monkeypatch.setenv("RAG_ENGINE", "[1")
    with pytest.raises(ConfigError, match=r"engine.*not YAML"):
        Settings()


def test_a_typo_below_a_section_in_the_environment_is_refused_and_foreign_variables_are_not(monkeypatch):
    monkeypatch.setenv("RAG_SOMEBODY_ELSES", "1")
    Settings()
    monkeypatch.setenv("RAG_ENGINE__LAYUOT", "block")
    with pytest.raises(ConfigError, match=r"layuot.*accepted: layout"):
        Settings()


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"reranker": None, "compressor": None, "ordering": None, "budget": None, "threads": 2},
        {"retriever": {"name": "bm25", "options": {"k1": 1.2, "stopwords": ["a", "é"]}}, "budget": "25%"},
        {"context_template": "<doc id={id}>\n{text}\n</doc>", "engine": {"cache_bytes": "3MiB"}},
    ],
)
def test_yaml_round_trip(tmp_path, values):
    settings = Settings(**values)
    path = tmp_path / "settings.yaml"
    path.write_text(settings.to_yaml(), encoding="utf-8")
    assert Settings.load(path) == settings
    assert Settings(**settings.to_dict()) == settings


def test_settings_cannot_be_changed():
    settings = Settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.top_n = 3
