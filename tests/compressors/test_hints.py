from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag.compressors.hints import question_hint


@pytest.mark.parametrize(
    ("question", "hint"),
    [
        ("Where is the harbour of Kestrel Point?", "The harbour of Kestrel Point is in the"),
        ("where is Lilu located?", "Lilu is in the"),
        ("Where did Tesla live?", "The place is the"),
        ("Who wrote Hamlet?", "The person is"),
        ("Who is the mayor of Lima?", "The mayor of Lima is"),
        ("To whom was it sold?", "The person is"),
        ("Whose ship sank?", "It belongs to"),
        ("When was the pier rebuilt?", "The date is"),
        ("How many native ships were sunk in 1812?", "The number of native ships is"),
        ("How many?", "The number is"),
        ("How deep is the harbour?", "The depth is"),
        ("How long did the war last?", "The duration is"),
        ("How long is the Nile?", "The length is"),
        ("How is bread baked?", "This is done by"),
        ("What is the capital of Peru?", "The capital of Peru is"),
        ("What album did she record?", "The album is"),
        ("In which Polish city was he born?", "The Polish city is"),
        ("Why did it sink?", "The reason is"),
        ("Tell me about the war. Who won it?", "The person is"),
        ("Is the harbour deep?", None),
        ("If Gallu is a demon Lilu is what?", None),
        ("Tell me about Peru", None),
        ("港は深いですか", None),
        ("?", None),
    ],
)
def test_hint_by_question_type(question: str, hint: str | None) -> None:
    assert question_hint(question) == hint


@given(st.text())
@settings(deadline=None)
def test_any_text_gives_a_hint_or_none(text: str) -> None:
    hint = question_hint(text)
    assert hint is None or hint.strip()
