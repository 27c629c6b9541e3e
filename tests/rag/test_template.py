from __future__ import annotations

import pytest

from rag.assembly import assemble, context_document, uncompressed
from rag.config import Settings
from rag.errors import ConfigError
from rag.template import around_text
from rag.types import Document, ScoredDocument


@pytest.mark.parametrize(
    ("template", "part"),
    [
        ("{text!r}", "no conversion"),
        ("{text:>10}", "no format"),
        ("{text:{rank}}", "no format"),
        ("{text} {text}", "exactly once"),
        ("{{text}}", "exactly once"),
        ("{} {text}", "{number}"),
        ("{title[0]} {text}", "{number}"),
        ("{score:d} {text}", "'d'"),
        ("{title:d} {text}", "'d'"),
        ("{id!x} {text}", "conversion"),
        ("{score:{text}} {text}", "KeyError"),
        ("{score:{nope}} {text}", "KeyError"),
        ("{text} {title:.2f}", "'f'"),
        ("{text", "expected '}'"),
        ("{text} }", "Single '}'"),
    ],
)
def test_a_template_that_would_fail_later_is_refused_with_the_settings(template, part):
    with pytest.raises(ConfigError) as caught:
        Settings(context_template=template)
    assert "context_template" in str(caught.value)
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("template", "block"),
    [
        ("{{text}} {text}", "{text} {x}"),
        ('{{"id": {id!r}}}\n{text}{{}}', "{\"id\": 'a'}\n{x}{}"),
        ("{score:.1f}|{rank:>3}|{title:{number}}|{text}", "0.2|  4|T|{x}"),
        ("{text}", "{x}"),
    ],
)
def test_braces_conversions_and_formats_outside_the_text(template, block):
    document = Document("a", "{x}", "T")
    item = context_document(ScoredDocument(document, 0.25, 4), uncompressed(document, 1), index=0, windows=1, scores={})
    assert assemble([item], Settings(context_template=template).context_template, "") == block


def test_both_sides_of_the_text_are_format_strings():
    assert around_text("{{a}} {id!r:>4} {text}{{{rank:{number}}}}") == ("{{a}} {id!r:>4} ", "{{{rank:{number}}}}")
