from __future__ import annotations

import pytest

from rag.errors import ConfigError, InputError
from rag.eval.context_systems import build_systems, parse_system
from rag.eval.folds import fold_of


class WordCounter:
    """Counts words, where no model is needed."""

    def count_tokens(self, texts):
        return [len(text.split()) for text in texts]


PARTS = {"engine": WordCounter, "embedder": lambda: None}


def test_names_options_and_labels():
    label, stage = parse_system("bm25")
    assert (label, stage.name, stage.options) == ("bm25", "bm25", {})
    label, stage = parse_system("bm25:k1=1.2,objective=best-first")
    assert (label, stage.name) == ("bm25:k1=1.2,objective=best-first", "bm25")
    assert stage.options == {"k1": 1.2, "objective": "best-first"}
    label, stage = parse_system("mine=bm25:threshold=null,min_keep=0")
    assert (label, stage.name, stage.options) == ("mine", "bm25", {"threshold": None, "min_keep": 0})
    label, stage = parse_system("mine=bm25")
    assert (label, stage.name, stage.options) == ("mine", "bm25", {})


def test_a_stage_from_a_file(tmp_path):
    file = tmp_path / "probe.yaml"
    file.write_text("name: bm25\noptions: {k1: 0.5, language: de}\n")
    label, stage = parse_system(f"probe={file}")
    assert (label, stage.name, stage.options) == ("probe", "bm25", {"k1": 0.5, "language": "de"})
    wrong = {
        "options: {}\n": "name: Field",
        "name: bm25\nk1: 1\n": "k1: Extra",
        "- a\n": "stage: ",
        "a: [": "while parsing",
    }
    for text, problem in wrong.items():
        file.write_text(text)
        with pytest.raises(InputError, match=problem):
            parse_system(f"probe={file}")
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        parse_system("probe=nowhere.yaml")


@pytest.mark.parametrize("text", ["", "=bm25", "x=", "bm25:", "bm25:k1", "bm25:k1=", "bm25:=1", "bm25:k1=[", ":k1=1"])
def test_other_forms_are_refused(text):
    with pytest.raises(InputError, match="accepted"):
        parse_system(text)


def test_systems_are_told_apart_by_what_decides_them():
    plain, tuned = build_systems(["first", "tuned=bm25:k1=1.2"], PARTS)
    assert (plain.label, plain.identity) == ("first", {"name": "first", "options": {}})
    assert (tuned.label, tuned.identity) == ("tuned", {"name": "bm25", "options": {"k1": 1.2}})
    assert plain.spec is None
    with pytest.raises(ConfigError, match="two systems are called 'first'"):
        build_systems(["first", "first"], PARTS)
    with pytest.raises(ConfigError, match=r"unknown compressor 'nonsense'; known: .*bm25"):
        build_systems(["nonsense"], PARTS)
    with pytest.raises(ConfigError, match=r"accepted options: .*k1"):
        build_systems(["bm25:depth=3"], PARTS)
    with pytest.raises(ConfigError, match="unknown options depth; accepted: attempts"):
        build_systems(["llmlingua:depth=3"], PARTS)
    with pytest.raises(ConfigError, match="no system"):
        build_systems([], PARTS)


def test_a_system_per_fold_judges_the_questions_of_its_fold():
    (folded,) = build_systems(["probe=random:seed={fold}"], PARTS, folds=3)
    assert folded.label == "probe"
    assert folded.identity == {"folds": [{"name": "random", "options": {"seed": seed}} for seed in range(3)]}
    for number in range(20):
        system = folded.at(f"q{number}")
        assert (system.label, system.compressor.seed) == ("probe", fold_of(f"q{number}", 3))
    (unlabelled,) = build_systems(["random:seed={fold}"], PARTS, folds=2)
    assert {unlabelled.label, unlabelled.at("q1").label} == {"random:seed={fold}"}
    for folds in (None, 1):
        with pytest.raises(InputError, match="2 or more, given"):
            build_systems(["random:seed={fold}"], PARTS, folds=folds)
