from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rag.attention.engine import AttentionEngine
from rag.attention.shared import SharedPass, select
from rag.attention.types import AttentionMap, AttentionSpec, BlockSpan, Head
from rag.types import Document, Query, Span

QUERY = Query("How deep is the harbour?")
HEADS = (Head(0, 1), Head(1, 0), Head(2, 3))


def hand_made() -> AttentionMap:
    """Documents a (2 windows: 2 + 3 tokens), e (empty), b (1 token), c (4 tokens); the value is its own address."""
    documents = (Document("a", "aa aaa"), Document("e", ""), Document("b", "b"), Document("c", "cccc"))
    lengths = [(0, 2), (0, 3), (2, 1), (3, 4)]
    blocks, start = [], 0
    for document, length in lengths:
        offsets = tuple(Span(i, i + 1) for i in range(length))
        blocks.append(BlockSpan(document, Span(start, start + length), offsets, Span(0, length)))
        start += length
    address = torch.arange(3)[:, None, None] * 100 + torch.arange(10)[None, None, :]
    rows = {"mean": address.float(), "last": address.float() + 0.5}
    calibration = {name: -values for name, values in rows.items()}
    return AttentionMap(documents, HEADS, rows, calibration, tuple(blocks), torch.arange(10) + 1000, ("q",), 2, 7)


@given(st.permutations(range(4)), st.integers(1, 4), st.permutations(HEADS), st.integers(1, 3), st.booleans())
def test_select_takes_each_documents_own_columns(order, size, heads, head_count, calibrated):
    source = hand_made()
    chosen = [source.documents[i] for i in order[:size]]
    spec = AttentionSpec(tuple(heads[:head_count]), ("last",), calibrated)

    part = select(source, chosen, spec)

    columns = [
        column
        for i in order[:size]
        for block in source.blocks
        if block.document == i
        for column in range(*block.tokens)
    ]
    expected = [[[HEADS.index(head) * 100 + column + 0.5 for column in columns]] for head in spec.heads or ()]
    assert part.rows.keys() == {"last"}
    assert part.rows["last"].tolist() == (expected if columns else [[[]]] * head_count)
    assert part.token_ids.tolist() == [1000 + column for column in columns]
    assert (part.calibration is None) is not calibrated
    if part.calibration is not None:
        assert torch.equal(part.calibration["last"], -part.rows["last"])
    assert part.documents == tuple(chosen)
    assert [part.windows()[i] for i in range(size)] == [(2, 0, 1, 1)[i] for i in order[:size]]
    ends = [block.tokens for block in part.blocks]
    assert [start for start, _ in ends] == [0, *(end for _, end in ends)][: len(ends)]
    assert part.encoded_tokens == 0


def test_a_map_that_is_asked_for_whole_is_not_copied():
    source = hand_made()
    part = select(source, source.documents, AttentionSpec(HEADS, ("mean",), calibrated=True))
    assert part.rows["mean"] is source.rows["mean"]
    assert part.token_ids is source.token_ids
    assert part.calibration is not None
    assert part.calibration["mean"] is source.calibration["mean"]  # type: ignore[index]


def test_stages_share_one_pass(engine: AttentionEngine, documents):
    ranking = AttentionSpec(HEADS[:2], ("mean",), calibrated=True)
    compressing = AttentionSpec(HEADS[2:], ("last",))
    shared = SharedPass(engine, QUERY, [ranking, compressing])

    first = shared.attend(QUERY, documents, ranking)
    second = shared.attend(QUERY, [documents[2], documents[0]], compressing)

    assert (shared.count.passes, shared.count.reused) == (1, 1)
    assert first.heads == HEADS[:2]
    whole = engine.attend(QUERY, documents, ranking.union(compressing))
    rows = dict(zip(whole.heads, whole.rows["last"], strict=True))
    starts = {block.document: block.tokens for block in whole.blocks}
    expected = torch.cat([rows[HEADS[2]][:, slice(*starts[i])] for i in (2, 0)], dim=1)
    assert torch.allclose(second.rows["last"][0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("query", "names", "spec"),
    [
        (Query("Who baked the bread?"), "ab", AttentionSpec(HEADS[:1])),
        (QUERY, "abc", AttentionSpec(HEADS[:1])),
        (QUERY, "ab", AttentionSpec(HEADS[1:2])),
        (QUERY, "ab", AttentionSpec(HEADS[:1], ("last",))),
        (QUERY, "ab", AttentionSpec(HEADS[:1], calibrated=True)),
    ],
    ids=["query", "document", "head", "rows", "calibration"],
)
def test_what_was_not_read_is_a_pass_of_its_own(engine, documents, query, names, spec):
    by_id = {document.id: document for document in documents}
    shared = SharedPass(engine, QUERY)
    shared.attend(QUERY, [by_id["a"], by_id["b"]], AttentionSpec(HEADS[:1]))

    answer = shared.attend(query, [by_id[name] for name in names], spec)

    assert (shared.count.passes, shared.count.reused) == (2, 0)
    direct = engine.attend(query, [by_id[name] for name in names], spec)
    assert torch.allclose(answer.rows[spec.rows[0]], direct.rows[spec.rows[0]], atol=1e-6)


def test_same_id_with_another_text_is_not_taken_for_the_same_document(engine, documents):
    shared = SharedPass(engine, QUERY)
    shared.attend(QUERY, documents, AttentionSpec(HEADS))
    shared.attend(QUERY, [Document("a", "Something else.")], AttentionSpec(HEADS))
    assert shared.count.passes == 2


def test_account_says_what_was_added(engine, documents):
    engine.clear_cache()
    shared = SharedPass(engine, QUERY)
    before = shared.count
    assert before.since(before) == {}
    answer = shared.attend(QUERY, documents, AttentionSpec(HEADS))
    added = shared.count.since(before)
    assert added["attention_passes"] == 1
    assert added["attention_encoded_tokens"] == answer.encoded_tokens > 0
    assert shared.windows(documents[0]) == 1
    assert shared.windows(Document("unread", "x")) is None
