"""The fields of requests: what is accepted, and how the OpenAPI document tells it.

The document says no less and no more than what is accepted, as far as JSON Schema can; tests/api/test_schema.py holds
the service to it.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError


def _integral(value: Any) -> Any:
    """JSON has one kind of number: 5.0 is the whole number 5, and some encoders write it so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_text(value: Any) -> Any:
    number = _integral(value)
    return str(number) if isinstance(number, int) and not isinstance(number, bool) else value


# The bound stands first: behind the validator, pydantic keeps it out of the schema where None is accepted too.
Whole = Annotated[int, BeforeValidator(_integral)]
Natural = Annotated[int, Field(ge=0), BeforeValidator(_integral)]
Count = Annotated[int, Field(ge=1), BeforeValidator(_integral)]
DocumentId = Annotated[
    str, BeforeValidator(_as_text), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "integer"}]})
]

# Bounds that are only told here. They are checked elsewhere (`rag.checks`, `rag.api.faces`), where the errors say more
# than those of pydantic and have a status of their own.
NotBlank = Annotated[str, Field(json_schema_extra={"pattern": r"\S"})]
NOT_EMPTY: dict[str, Any] = {"minItems": 1}

Question = Annotated[NotBlank, Field(description="The question. At least one character that is not white space.")]


def text_alone(value: Any) -> Any:
    """A document that is given as its bare text, as the object that it is short for."""
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, dict):
        raise PydanticCustomError("document_type", "must be a string, or an object with a text")
    return value


def or_string(schema: dict[str, Any]) -> None:
    """Say in the schema of an object that its bare text is accepted too."""
    schema["anyOf"] = [{"type": "string"}, _taken(schema)]


def budget_forms(schema: dict[str, Any]) -> None:
    """Say in the schema of a budget which forms it has (`rag.config.BudgetSettings`)."""
    object_ = _taken(schema)
    counted, ratio = (
        object_ | {"properties": {"amount": amount, "unit": unit}, "required": required}
        for amount, unit, required in (
            (_COUNT, {"enum": ["tokens", "characters"], "default": "tokens"}, ["amount"]),
            (_RATIO | {"maximum": 1}, {"const": "ratio"}, ["amount", "unit"]),
        )
    )
    schema["anyOf"] = [
        {"type": "string", "pattern": _BUDGET_TEXT},
        _COUNT,
        _RATIO | {"exclusiveMaximum": 1},
        counted,
        ratio,
    ]


_COUNT: dict[str, Any] = {"type": "integer", "minimum": 1}
_RATIO: dict[str, Any] = {"type": "number", "exclusiveMinimum": 0}
_BUDGET_TEXT = r"^([1-9]\d{0,8}( tokens| characters)?|(100|[1-9]\d?(\.\d{1,8})?)%|0\.\d{0,8}[1-9])$"


def _taken(schema: dict[str, Any]) -> dict[str, Any]:
    """What a schema says of an object, taken out of it."""
    return {name: schema.pop(name) for name in ("type", "properties", "required", "additionalProperties")}
