"""Every failure this project reports to a caller, with one stable code each.

The library raises these, the CLI prints them, and the HTTP service turns ``code`` into a status
(`rag.api.errors`). A message always says what was given and what is accepted.
"""

from __future__ import annotations

from typing import ClassVar


def shown(value: object, limit: int = 80) -> str:
    """``repr`` of what was given, at most ``limit`` characters of it: a message never grows with the input."""
    try:
        text = repr(value[:limit] if isinstance(value, str | bytes) else value)
    except ValueError:  # an int of more digits than Python writes out
        return f"<{type(value).__name__}>"
    # The quotes alone make the repr of a text that was cut longer than the limit.
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class RagError(Exception):
    """Base of all errors raised on purpose by this project.

    ``code`` is a stable machine-readable name; the message is for people.
    """

    code: ClassVar[str] = "internal_error"


class InputError(RagError, ValueError):
    """The caller's input is not acceptable; nothing was computed."""

    code: ClassVar[str] = "invalid_input"


class EmptyQueryError(InputError):
    """The query has no character other than white space."""

    code: ClassVar[str] = "empty_query"


class QueryTooLongError(InputError):
    """The query has more tokens than the configured cap."""

    code: ClassVar[str] = "query_too_long"


class DuplicateIdsError(InputError):
    """Two documents of one corpus carry the same id."""

    code: ClassVar[str] = "duplicate_ids"


class NotTextError(InputError):
    """A text field holds something that is not a string."""

    code: ClassVar[str] = "not_text"


class LimitError(InputError):
    """A count or a size is above a configured limit."""

    code: ClassVar[str] = "limit_exceeded"


class BudgetError(InputError):
    """A compression or cache budget that cannot be met."""

    code: ClassVar[str] = "impossible_budget"


class ConfigError(InputError):
    """A configuration value, stage name or stage option that is not accepted."""

    code: ClassVar[str] = "invalid_configuration"


class ModelNotFoundError(RagError):
    """A model name that cannot be resolved to weights on this machine."""

    code: ClassVar[str] = "model_not_found"


class UnsupportedModelError(RagError):
    """The model's attention has a feature the engine cannot reproduce exactly."""

    code: ClassVar[str] = "unsupported_model"


class ArtefactError(RagError):
    """A stored artefact (head list, probe, block store) that does not fit, or is damaged."""

    code: ClassVar[str] = "artefact_mismatch"


class ModelOutputError(RagError):
    """The model produced a value that is not a finite number."""

    code: ClassVar[str] = "model_output"


class DeviceMemoryError(RagError):
    """A single request that the device has not the memory for."""

    code: ClassVar[str] = "out_of_memory"
