"""Three questions over short documents with their answers and supporting sentences, as a file of `load_qa`."""

from __future__ import annotations

import json
from pathlib import Path

HARBOUR = "The quay was built in 1871. The harbour is fourteen metres deep. Gulls nest on its wall. Salt is sold there."
LAMP = "The lighthouse burned whale oil until 1911. Its keeper lived alone. His dog was called Storm."
BREAD = "Bread is baked before dawn. The baker sells it at the market. Rye costs more than wheat."
TITLES = {"harbour": "Harbour", "lamp": "Lighthouse", "bread": "Bakery"}

QUESTIONS = (
    ("q1", "How deep is the harbour?", ["fourteen metres", "14 m"], "harbour", "The harbour is fourteen metres deep."),
    ("q2", "What was the keeper's dog called?", ["Storm"], "lamp", "His dog was called Storm."),
    ("q3", "Is rye bread cheaper than wheat bread?", ["no"], "bread", "Rye costs more than wheat."),
)


def write_qa(path: Path) -> Path:
    """Write the questions; every one comes with all three documents."""
    documents = [
        {"_id": name, "title": TITLES[name], "text": text}
        for name, text in (("harbour", HARBOUR), ("lamp", LAMP), ("bread", BREAD))
    ]
    lines = [
        {
            "_id": number,
            "question": question,
            "answers": answers,
            "documents": [{**document, "supporting": document["_id"] == gold} for document in documents],
            "supporting_sentences": [{"doc_id": gold, "text": sentence}],
        }
        for number, question, answers, gold, sentence in QUESTIONS
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
