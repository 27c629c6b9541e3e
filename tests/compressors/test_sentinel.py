"""The learned sentence compressor: its statistics on known numbers, its choices with the real model."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attention_maps import HEADS, word_map

from rag.attention.engine import AttentionEngine
from rag.bridges import Wording
from rag.budget import Budget
from rag.compressors import SentinelCompressor
from rag.compressors.sentinel import EMBEDDED, FOLLOWING, document, following, share
from rag.errors import ArtefactError
from rag.kept_embeddings import KeptEmbeddings
from rag.models.embedder import Embedder
from rag.sentences import sentences
from rag.types import Document, Query, ScoredDocument, Span

HARBOUR = Document(
    "harbour",
    "The quay was built in 1871. The harbour is fourteen metres deep. Gulls nest on its wall. Salt is sold there.",
)
LAMP = Document("lamp", "The lighthouse burned whale oil until 1911. Its keeper lived alone. His dog was called Storm.")


def spans_of(documents):
    return [sentences(item.text) if item.text.strip() else () for item in documents]


@pytest.fixture(scope="module")
def engine(smollm2):
    return AttentionEngine(smollm2.name)


@pytest.fixture(scope="module")
def embedder(minilm):
    return KeptEmbeddings(Embedder(minilm.name))


def test_share_is_the_sum_over_a_sentence_with_part_of_its_length_taken_back():
    texts = [Document("a", "aa bb. cc dd ee."), Document("b", "ff.")]
    value = {"aa": 0.1, "bb.": 0.2, "cc": 0.3, "dd": 0.0, "ee.": 0.1, "ff.": 0.4}
    answer = word_map(texts, lambda word: value[word])
    found = share(answer, spans_of(texts), HEADS)
    assert found.shape == (2, 3)
    assert found[0] == pytest.approx([0.3 / 2**0.75, 0.4 / 3**0.75, 0.4])
    assert found[1] == pytest.approx(2 * found[0])


def test_every_sentence_of_a_document_has_the_documents_own_score():
    texts = [Document("a", "aa. bb."), Document("b", "cc.")]
    answer = word_map(texts, lambda _: 0.0)
    values = torch.tensor([[0.0, 0.5, 0.1, 0.0, 0.3], [0.0, 0.1, 0.3, 0.0, 0.9]])
    answer.rows["all"] = torch.stack([values, values])
    assert document(answer, spans_of(texts), HEADS)[0] == pytest.approx([0.4, 0.4, 0.6])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("How deep is the harbour?", "The harbour is fourteen metres deep."),
        ("What was the keeper's dog called?", "His dog was called Storm."),
        ("When was the quay built?", "The quay was built in 1871."),
    ],
)
def test_the_sentence_that_answers_is_kept_when_a_third_may_stay(engine, embedder, question, answer):
    given = [ScoredDocument(item, 0.0, rank) for rank, item in enumerate((HARBOUR, LAMP), 1)]
    kept = SentinelCompressor(engine, embedder).compress(Query(question), given, Budget(0.34, "ratio"))
    assert answer in " ".join(item.text for item in kept)
    probabilities = [sentence.score for item in kept for sentence in item.sentences]
    assert all(0 < value < 1 for value in probabilities)


def test_a_threshold_is_a_probability(engine, embedder):
    given = [ScoredDocument(item, 0.0, rank) for rank, item in enumerate((HARBOUR, LAMP), 1)]
    query = Query("How deep is the harbour?")
    scores = [
        s
        for item in SentinelCompressor(engine, embedder).compress(query, given, Budget(1.0, "ratio"))
        for s in item.sentences
    ]
    limit = sorted(sentence.score for sentence in scores)[-2]
    kept = SentinelCompressor(engine, embedder, threshold=limit).compress(query, given, Budget(1.0, "ratio"))
    assert sum(len(item.spans) for item in kept) == 2


def test_a_blank_document_gets_nothing_and_changes_nothing(engine, embedder):
    blank = Document("blank", " \n")
    query = Query("How deep is the harbour?")
    one = SentinelCompressor(engine, embedder).compress(query, [ScoredDocument(HARBOUR, 0.0, 1)], Budget(12, "tokens"))
    two = SentinelCompressor(engine, embedder).compress(
        query, [ScoredDocument(blank, 0.0, 1), ScoredDocument(HARBOUR, 0.0, 2)], Budget(12, "tokens")
    )
    assert two[0].spans == ()
    assert two[1].spans == one[0].spans


def test_the_second_step_of_a_question_is_kept_where_attention_alone_would_leave_it(engine, embedder, tmp_path):
    pages = (
        Document("journal", "The Harbour Review appears monthly. The Society of Tides prints it.", "Harbour Review"),
        Document("dunes", "Sand moves inland with the wind. Grass holds it.", "Sand dune"),
        Document("tides", "Its emblem is a gull. Ada Brine led it from 1871.", "Society of Tides"),
    )
    query = Query("Who led the society that prints the Harbour Review?")
    shipped = SentinelCompressor(engine, embedder)
    path = tmp_path / "attention.json"
    weights = shipped._weights
    weights.model_copy(update={"signals": {}}).save(path)
    given = [ScoredDocument(item, 0.0, rank) for rank, item in enumerate(pages, 1)]
    chance = [
        {s.span: s.score for s in compressor.compress(query, given, Budget(1.0, "ratio"))[2].sentences}
        for compressor in (SentinelCompressor(engine, embedder, probe=path), shipped)
    ]
    assert set(FOLLOWING) == set(weights.signals)
    assert all(chance[1][span] > value for span, value in chance[0].items())


def test_only_the_best_half_of_the_text_is_embedded_and_the_rest_counts_as_its_lowest():
    texts = [Document("a", "Aa bb cc. Dd ee ff. Gg hh ii. Jj kk ll.")]
    spans = [[Span(start, start + 9) for start in (0, 10, 20, 30)]]
    asked = []

    def cosines(places):
        asked.extend(places)
        return np.array([0.9 if place == 2 else 0.1 for place in places])

    sizes = [end - start for start, end in spans[0]]
    found = following(np.array([0.0, 3.0, 2.0, 1.0]), Wording.of(Query("q"), texts, spans), sizes, cosines)["dense"]
    assert EMBEDDED == 0.5
    assert asked == [1, 2]
    assert found[2] > found[1] == found[0] == found[3]
    # One sentence is looked at, however long.
    asked.clear()
    following(np.array([1.0, 0.0]), Wording.of(Query("q"), texts, spans), [90, 5], cosines, ["dense"])
    assert asked == [0]


def test_a_sentence_probe_with_an_unknown_signal_is_refused(engine, embedder, tmp_path):
    path = tmp_path / "probe.json"
    SentinelCompressor(engine, embedder)._weights.model_copy(update={"signals": {"moon": 1.0}}).save(path)
    given = [ScoredDocument(HARBOUR, 0.0, 1)]
    with pytest.raises(ArtefactError, match="expected signals among dense, named-titles, shared-words; found moon"):
        SentinelCompressor(engine, embedder, probe=path).compress(Query("harbour"), given, Budget(9, "tokens"))
