"""The template of one document of the assembled context: what it may hold, and its parts around the text."""

from __future__ import annotations

from string import Formatter

FIELDS = ("number", "id", "title", "text", "rank", "score")

# Values of the types that a document has, to try a template on.
_SAMPLE = {"number": 1, "id": "d1", "title": "A title", "rank": 1, "score": 0.5}


def around_text(template: str) -> tuple[str, str]:
    """The format strings before and behind the field ``{text}``; escaped braces stay escaped."""
    sides = ["", ""]
    side = 0
    for literal, field, spec, conversion in Formatter().parse(template):
        sides[side] += literal.replace("{", "{{").replace("}", "}}")
        if field == "text":
            side = 1
        elif field is not None:
            sides[side] += f"{{{field}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"
    return sides[0], sides[1]


def check_template(template: str) -> str:
    """Return a template that will work: plain `FIELDS` only, ``{text}`` exactly once and as it is.

    Raises:
        ValueError: another field, ``{text}`` not once or with a conversion or format, or a format that does
            not fit its field.
    """
    fields = [(name, spec, conversion) for _, name, spec, conversion in Formatter().parse(template) if name is not None]
    names = [name for name, _, _ in fields]
    if any(name not in FIELDS for name in names) or names.count("text") != 1:
        accepted = ", ".join(f"{{{name}}}" for name in FIELDS)
        raise ValueError(f"a template uses {{text}} exactly once and no other fields than {accepted}")
    if any(name == "text" and (spec or conversion) for name, spec, conversion in fields):
        raise ValueError("{text} goes in as it is: no conversion (!r) and no format (:10) is accepted on it")
    for part in around_text(template):
        try:
            part.format(**_SAMPLE)
        except (ValueError, LookupError, TypeError, OverflowError, MemoryError) as error:
            raise ValueError(f"the template cannot be filled in: {type(error).__name__}: {error}") from None
    return template
