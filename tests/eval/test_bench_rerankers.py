"""``rag bench rerankers`` as a user calls it, with the real models on a few short passages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rag.cli.app import app
from rag.cli.bench_rerankers import DEFAULT_SYSTEMS
from rag.errors import ConfigError, InputError
from rag.eval.bench_rerankers import Seconds, measure
from rag.eval.context_systems import parse_system
from rag.eval.results_views import VIEWS, kind_of
from rag.eval.systems import Found, Reranked
from rag.registry import check
from rag.types import Document, Query, ScoredDocument, ranked

QUERIES = [Query(f"question {number}", str(number)) for number in range(3)]
LISTS = Found(
    {query.id: ranked([Document(f"{query.id}{i}", "text") for i in range(4)], [0.0] * 4) for query in QUERIES},
    (0.1, 0.3, 0.2),
)


def run(*arguments: object):
    return CliRunner().invoke(app, ["bench", "rerankers", *map(str, arguments), "--no-progress"])


class Watched:
    """Ranks as given, and notes what it is asked and when it has to forget."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def forget(self) -> None:
        self.log.append("forget")

    def rerank(self, query: Query, documents: Sequence[ScoredDocument], **_: object) -> list[ScoredDocument]:
        self.log.append(f"{query.id} of {documents[0].document.id[0]}, {len(documents)}")
        return list(documents)


def test_cold_is_after_forgetting_and_warm_after_another_query(tmp_path):
    watched = Watched()
    systems = {"found": LISTS, "watched": Reranked(LISTS, watched, watched.forget)}
    journal = tmp_path / "seconds.jsonl"
    steps: list[str] = []
    first = measure(systems, QUERIES, identities={"watched": 1}, journal=journal, step=steps.append)
    assert watched.log == [
        "0 of 0, 2",  # what a first call loads is not timed
        "forget", "1 of 0, 4", "0 of 0, 4",
        "forget", "2 of 1, 4", "1 of 1, 4",
        "forget", "0 of 2, 4", "2 of 2, 4",
    ]  # fmt: skip
    assert steps == ["watched"] * 3
    assert (first[0].cold, first[0].warm) == ((), (0.1, 0.3, 0.2))
    lines = journal.read_text().splitlines()
    journal.write_text("\n".join(lines[:-1]) + "\n")
    watched.log.clear()
    again = measure(systems, QUERIES, identities={"watched": 1}, journal=journal)
    assert watched.log == ["0 of 0, 2", "forget", "0 of 2, 4", "2 of 2, 4"]
    assert again[1].cold[:2] == first[1].cold[:2]
    watched.log.clear()
    measure(systems, QUERIES, identities={"watched": 2}, journal=journal)
    assert watched.log.count("forget") == 3  # another reranker under the same name
    with pytest.raises(InputError, match="at least 2 queries, given 1"):
        measure(systems, QUERIES[:1], identities={})


def test_ratios_are_those_of_medians():
    base, other = Seconds("base", (2.0, 4.0, 3.0), (0.1, 0.2, 0.3)), Seconds("other", (9.0, 1.0, 6.0), (0.4,) * 3)
    row = other.row(base)
    assert (row["cold_s"], row["cold_least_s"], row["cold_most_s"], row["cold_ratio"]) == (6.0, 1.0, 9.0, 2.0)
    assert row["warm_ratio"] == pytest.approx(2.0)
    retriever = Seconds("bm25", (), (0.001,)).row(base)
    assert (retriever["cold_s"], retriever["cold_ratio"], retriever["warm_s"], retriever["warm_ratio"]) == (
        None, None, 0.001, None,
    )  # fmt: skip


def test_every_default_can_be_built():
    stages = [parse_system(text)[1] for text in DEFAULT_SYSTEMS]
    retrievers = {"bm25", "dense", "fused"}
    for stage in stages:
        check(
            "retriever" if stage.name in retrievers else "reranker", stage.name, stage.options, ("engine", "embedder")
        )
    assert next(stage.name for stage in stages if stage.name not in retrievers) == "probe"


def test_the_command_measures_real_rerankers(tmp_path):
    texts = ("The harbour is 14 metres deep.", "Bread is sold out by nine.", "Fog is common in the harbour in autumn.")
    asked = ("How deep is the harbour?", "When is bread sold out?")
    for name, lines in (("corpus", texts), ("queries", asked)):
        records = [json.dumps({"_id": str(i), "text": text}) for i, text in enumerate(lines)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(records))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n0\t0\t1\n1\t1\t1\n")
    record = tmp_path / "figures.json"
    flags = ("--candidates", "bm25", "--k", 3, "--journal", tmp_path / "seconds.jsonl", "--json", record)
    done = run(tmp_path, "-s", "probe", "-s", "icr", *flags)
    assert done.exit_code == 0, (done.output, done.exception)
    figures = json.loads(record.read_text())
    rows = {row["system"]: row for row in figures["rows"]}
    assert list(rows) == ["bm25", "probe", "icr"]
    assert (figures["baseline"], rows["probe"]["cold_ratio"], rows["probe"]["warm_ratio"]) == ("probe", 1.0, 1.0)
    assert all(rows[name][f"{part}_s"] > 0 for name in ("probe", "icr") for part in ("cold", "warm"))
    assert f"2 queries of {tmp_path.name}, 3 candidates each" in done.output
    assert figures["tokens"]["probe"]["mean"] > 10
    assert "| bm25 | - | - | - | - |" in VIEWS[kind_of(figures)](figures, {})


def test_what_is_not_accepted_is_named(tmp_path: Path):
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"engine: {{store: {tmp_path / 'store'}}}")
    stored = run("nowhere", "-c", settings)
    assert isinstance(stored.exception, ConfigError)
    assert "nothing would be cold" in str(stored.exception)
    assert "unknown reranker 'tea'" in str(run("nowhere", "-s", "tea").exception)
    assert isinstance(run(tmp_path / "nowhere").exception, InputError)
