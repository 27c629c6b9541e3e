from __future__ import annotations

import pytest
from attention_maps import HEADS, WordAttender, scored, word_map

from rag.attention.types import AttentionMap, AttentionSpec, Head
from rag.compressors.ordering import AttentionSort
from rag.compressors.ordering.attention_sort import document_attention
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


def test_the_most_attended_comes_last_and_equals_keep_their_order() -> None:
    attender = WordAttender(count)
    assert ids(AttentionSort(attender).order(QUERY, scored("5", "1", "3", "1", ""))) == "41320"
    assert [spec for _, spec in attender.asked] == [AttentionSpec(None, ("last",))]


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
    assert ids(AttentionSort(engine, iterations=5).order(QUERY, documents)) == "210"
    assert [order for order, _ in engine.asked] == [("0", "1", "2"), ("2", "1", "0")]
    capped = Recency(count)
    AttentionSort(capped, iterations=1).order(QUERY, documents)
    assert len(capped.asked) == 1


def test_a_shared_pass_gives_the_first_reading_only() -> None:
    engine, shared = WordAttender(count), WordAttender(count)
    AttentionSort(engine, heads=(Head(0, 0),), iterations=3).order(QUERY, scored("5", "1"), attender=shared)
    assert (len(shared.asked), len(engine.asked)) == (1, 1)


def test_names_and_options() -> None:
    assert {"attention-sort", "document", "interleave", "ranked", "reversed"} <= set(names("ordering"))
    parts = {"engine": lambda: WordAttender(count)}
    assert build("ordering", "attention-sort", {"heads": [[0, 0]]}, parts).spec.heads == (Head(0, 0),)
    with pytest.raises(ConfigError, match="at least 1, given 0"):
        build("ordering", "attention-sort", {"iterations": 0}, parts)
    with pytest.raises(ConfigError, match="accepted: mean, sum"):
        AttentionSort(WordAttender(count), pooling="max")  # type: ignore[arg-type]
