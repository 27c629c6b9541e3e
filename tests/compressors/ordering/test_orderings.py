from __future__ import annotations

import pytest
from attention_maps import HEADS, WordAttender, scored, word_map

from rag.attention.types import AttentionMap, AttentionSpec, Head
from rag.compressors.ordering import AttentionSort, FoundInTheMiddle, Shuffle
from rag.compressors.ordering.document_attention import document_attention, layer_attention
from rag.errors import ConfigError, InputError
from rag.registry import build, names
from rag.types import Document, Query, ScoredDocument, Span

QUERY = Query("How deep is the harbour?")


def ids(documents: list[ScoredDocument]) -> str:
    return "".join(item.document.id for item in documents)


def count(word: str) -> float:
    return float(word)


@pytest.mark.parametrize(
    ("name", "expected"), [("ranked", "01234"), ("reversed", "43210"), ("interleave", "02431"), ("document", "23014")]
)
def test_orders_that_follow_from_rank_or_place(name: str, expected: str) -> None:
    by_rank = scored("a", "b", "c", "d", "e")
    given = [by_rank[i] for i in (2, 3, 0, 1, 4)]
    placed = build("ordering", name, {}, {}).order(QUERY, given)
    assert ids(placed) == expected
    assert all(any(item is other for other in given) for item in placed)
    assert build("ordering", name, {}, {}).order(QUERY, []) == []


def test_corpus_order_reads_the_index() -> None:
    placed = [
        ScoredDocument(d.document, 1.0, d.rank, {"index": i}) for d, i in zip(scored("a", "b"), (7, 3), strict=True)
    ]
    order = build("ordering", "document", {}, {}).order
    assert ids(order(QUERY, placed)) == "10"
    with pytest.raises(InputError, match="1 of 3 lack it, the first is '2'"):
        order(QUERY, [*placed, scored("a", "b", "c")[2]])


def test_document_attention_pools_tokens_and_takes_the_best_window() -> None:
    documents = [Document("a", "1 2 3"), Document("b", ""), Document("c", "4 6")]
    windows = [[Span(0, 5), Span(2, 5)], [], [Span(0, 3)]]
    attention = word_map(documents, count, windows)
    # The title token of 50 is part of the document.
    assert document_attention(attention, HEADS[:1]) == pytest.approx([55 / 3, 0, 20])
    assert document_attention(attention, HEADS, "sum") == pytest.approx([56 * 1.5, 0, 60 * 1.5])


def test_calibration_takes_away_what_every_query_gives() -> None:
    attention = word_map([Document("a", "1 2 3"), Document("b", "9")], count)
    attention.calibration["last"] = attention.calibration["mean"]  # type: ignore[index]
    raw = document_attention(attention, HEADS[:1])
    assert raw == pytest.approx([56 / 4, 59 / 2])
    # The content-free query gives 0.1 to each word and nothing to the title token.
    assert document_attention(attention, HEADS[:1], calibrated=True) == pytest.approx([55.7 / 4, 58.9 / 2])
    with pytest.raises(InputError, match=r"calibrated=True"):
        document_attention(word_map([Document("a", "1")], count, calibration=None), calibrated=True)


def test_layers_are_read_apart() -> None:
    attention = word_map([Document("a", "1 3"), Document("b", "")], count)
    assert layer_attention(attention).tolist() == [pytest.approx([18, 0]), pytest.approx([36, 0])]


def test_the_most_attended_comes_last_and_equals_keep_their_order() -> None:
    attender = WordAttender(count)
    placed = AttentionSort(attender, iterations=1).order(QUERY, scored("5", "1", "3", "1", ""))
    assert ids(placed) == "41320"
    assert [spec for _, spec in attender.asked] == [AttentionSpec(None, ("last",))]
    assert placed[0].trace["ordering"] == {"passes": 1, "tokens": 8, "stopped": "iterations"}


def test_without_any_text_nothing_is_read() -> None:
    attender = WordAttender(count)
    assert ids(AttentionSort(attender).order(QUERY, scored("", " "))) == "01"
    assert AttentionSort(attender).order(QUERY, []) == []
    assert not attender.asked


class Recency(WordAttender):
    """Attention that also grows with the place in the prompt, as in a causal layout."""

    def attend(self, query: Query, documents: tuple[Document, ...], spec: AttentionSpec) -> AttentionMap:  # type: ignore[override]
        moved = [Document(d.id, str(int(d.text) + 60 * place)) for place, d in enumerate(documents)]
        super().attend(query, documents, spec)
        return word_map(moved, count)


def test_iterations_stop_at_a_fixed_point_and_at_the_cap() -> None:
    documents = scored("200", "100", "0")
    engine = Recency(count)
    settled = AttentionSort(engine).order(QUERY, documents)
    assert ids(settled) == "210"
    assert [order for order, _ in engine.asked] == [("0", "1", "2"), ("2", "1", "0")]
    assert settled[0].trace["ordering"] == {"passes": 2, "tokens": 12, "stopped": "order unchanged"}
    capped = Recency(count)
    AttentionSort(capped, iterations=1).order(QUERY, documents)
    assert len(capped.asked) == 1


@pytest.mark.parametrize(("most", "passes", "stopped"), [(11, 1, "cost"), (12, 2, "order unchanged"), (1, 1, "cost")])
def test_a_pass_that_costs_too_much_is_not_run(most: int, passes: int, stopped: str) -> None:
    placed = AttentionSort(Recency(count), max_tokens=most).order(QUERY, scored("200", "100", "0"))
    assert placed[0].trace["ordering"] == {"passes": passes, "tokens": 6 * passes, "stopped": stopped}


def test_what_was_noted_before_stays_in_the_trace() -> None:
    given = [ScoredDocument(Document("a", "1"), 1.0, 1, {"index": 4})]
    (placed,) = AttentionSort(WordAttender(count)).order(QUERY, given)
    assert placed.trace["index"] == 4
    assert given[0].trace == {"index": 4}


class Calibrated(WordAttender):
    """Documents get what their words say, and the content-free query sees the second word's number."""

    def attend(self, query: Query, documents: tuple[Document, ...], spec: AttentionSpec) -> AttentionMap:  # type: ignore[override]
        super().attend(query, documents, spec)
        seen = word_map(documents, lambda word: float(word.split("/")[0]))
        free = word_map(documents, lambda word: float(word.split("/")[1]))
        seen.calibration["last"] = free.rows["last"]  # type: ignore[index]
        return seen


def test_found_in_the_middle_ranks_by_what_is_beyond_the_bias() -> None:
    attender = Calibrated(lambda _: 0.0)
    documents = scored("9/8", "", "4/1", "7/7", "2/1")
    assert ids(FoundInTheMiddle(attender).order(QUERY, documents)) == "20431"  # type: ignore[arg-type]
    assert attender.asked == [(("0", "2", "3", "4"), AttentionSpec(None, ("last",), calibrated=True))]
    assert ids(FoundInTheMiddle(attender).order(QUERY, scored("", " "))) == "01"  # type: ignore[arg-type]


def test_shuffle_depends_on_seed_query_and_documents_alone() -> None:
    documents = scored(*"abcdefgh")
    placed = ids(Shuffle(seed=1).order(QUERY, documents))
    assert sorted(placed) == list("01234567")
    assert ids(Shuffle(seed=1).order(QUERY, documents[::-1])) == placed
    others = {ids(Shuffle(seed=seed).order(QUERY, documents)) for seed in range(20)}
    assert len(others) == 20
    assert ids(Shuffle(seed=1).order(Query("Another question?"), documents)) != placed


def test_a_shared_pass_gives_the_first_reading_only() -> None:
    engine, shared = WordAttender(count), WordAttender(count)
    AttentionSort(engine, heads=(Head(0, 0),), iterations=3).order(QUERY, scored("5", "1"), attender=shared)
    assert (len(shared.asked), len(engine.asked)) == (1, 1)


def test_names_and_options() -> None:
    assert set(names("ordering")) >= {
        *("attention-sort", "attnrank", "chronological", "document", "found-in-the-middle"),
        *("interleave", "ranked", "reversed", "shuffle"),
    }
    parts = {"engine": lambda: WordAttender(count)}
    assert build("ordering", "attention-sort", {"heads": [[0, 0]]}, parts).spec.heads == (Head(0, 0),)
    with pytest.raises(ConfigError, match="at least 1, given 0"):
        build("ordering", "attention-sort", {"iterations": 0}, parts)
    with pytest.raises(ConfigError, match="max_tokens must be at least 1, given 0"):
        build("ordering", "attention-sort", {"max_tokens": 0}, parts)
    for options, problem in (
        ({"bias": "document"}, "bias"),
        ({"profile": "basin.json"}, "accepted: with bias 'profile'"),
        ({"bias": "profile", "heads": [[0, 0]]}, "accepted: none, the layers of the profile"),
    ):
        with pytest.raises(ConfigError, match=problem):
            build("ordering", "found-in-the-middle", options, parts)
    with pytest.raises(ConfigError, match="accepted: mean, sum"):
        AttentionSort(WordAttender(count), pooling="max")  # type: ignore[arg-type]
