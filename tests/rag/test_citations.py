from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.assembly import assemble_cited, context_document
from rag.attention.engine import AttentionEngine
from rag.citations import Citation, Source, cite, text_citations
from rag.config import Settings
from rag.errors import InputError
from rag.pipeline import Pipeline
from rag.types import CompressedDocument, Document, ScoredDocument, Span

# White space and full stops often, anything else now and then.
TEXT = st.lists(st.sampled_from("  \n.") | st.characters(codec="utf-8"), max_size=30).map("".join)


@st.composite
def kept_documents(draw: st.DrawFn) -> list[CompressedDocument]:
    documents = []
    for number in range(draw(st.integers(0, 4))):
        text = draw(TEXT)
        borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8).map(lambda b: b[: len(b) // 2 * 2])))
        spans = tuple(Span(a, b) for a, b in zip(borders[::2], borders[1::2], strict=True) if a < b)
        title = draw(st.sampled_from(["", "A {title}", "t"]))
        documents.append(CompressedDocument(Document(f"d{number}", text, title), spans, (), 0, 0, draw(TEXT)))
    return documents


@given(kept_documents(), st.sampled_from(["[{number}] {title}\n{text}", "{text}", "<{id}>\n{text}\n</{id}>"]), TEXT)
@settings(deadline=None)
def test_every_cited_character_is_the_source_character_and_every_kept_one_is_cited(
    kept: list[CompressedDocument], template: str, separator: str
) -> None:
    items = [
        context_document(ScoredDocument(item.document, 1.0, rank), item, index=0, windows=1, scores={})
        for rank, item in enumerate(kept, start=1)
    ]
    by_id = {item.document.id: item for item in kept}
    context, citations = assemble_cited(items, by_id, template, separator)
    cited: dict[str, set[int]] = {name: set() for name in by_id}
    end = 0
    for run in citations:
        assert end <= run.start < run.end <= len(context)
        end = run.end
        text = by_id[run.document_id].document.text
        assert context[run.start : run.end] == text[run.source_start : run.source_end]
        cited[run.document_id] |= set(range(run.source_start, run.source_end))
    for position in range(len(context)):
        source = cite(citations, position)
        if source is not None:
            assert by_id[source.document_id].document.text[source.offset] == context[position]
    for item in kept:
        wanted = {place for span in item.spans for place in range(*span)}
        assert wanted <= cited[item.document.id] or item.document.is_empty
        assert all(not item.document.text[place].strip() for place in cited[item.document.id] - wanted)


def test_neighbours_are_one_run_and_an_ellipsis_is_in_none() -> None:
    document = Document("a", "One.  Two. Three. Four.")
    kept = CompressedDocument(document, (Span(0, 4), Span(6, 10), Span(18, 23)), (), 4, 3)
    assert kept.text == "One.  Two. … Four."
    assert list(text_citations(kept, 100)) == [Citation(100, 110, "a", 0, 10), Citation(113, 118, "a", 18, 23)]


def test_a_result_tells_where_each_character_came_from(engine: AttentionEngine) -> None:
    settings = Settings(retriever="bm25", reranker=None, compressor="bm25", budget="40 characters")
    pipeline = Pipeline(settings, engine=engine)
    text = "Gulls nest there. The harbour is fourteen metres deep. Fog is common."
    result = pipeline.run("How deep is the harbour?", [Document("port", text, "Kestrel Point")])
    assert result.context.startswith("[1] Kestrel Point\n")
    place = result.context.index("fourteen")
    assert result.cite(place) == Source("port", text.index("fourteen"))
    assert result.cite(0) is None
    assert [run.document_id for run in result.citations] == ["port"]
    for wrong in (-1, len(result.context)):
        with pytest.raises(InputError, match=f"position {wrong} in a context of"):
            result.cite(wrong)
