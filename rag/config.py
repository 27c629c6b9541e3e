"""Every setting of the product, read from a YAML file, the environment and explicit arguments.

Strength grows in that order: a YAML file is weakest, an environment variable ``RAG_<FIELD>`` (nested
``RAG_ENGINE__LAYOUT``) beats it, an explicit argument (a CLI flag, a keyword of `Settings`) beats both.
Sections are merged key by key. Environment values are read as YAML, so ``RAG_RERANKER=null`` turns a
stage off and ``RAG_BUDGET=50%`` works like it does in a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveInt,
    ValidationError,
    field_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from rag.budget import Budget, Unit
from rag.errors import ConfigError, InputError, RagError, shown
from rag.template import check_template

Device = Literal["auto", "cpu", "cuda", "mps"]
CONFIG_VARIABLE = "RAG_CONFIG"

_file: ContextVar[Path | None] = ContextVar("rag_config_file", default=None)


class _Section(BaseModel):
    """A part of the settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class EngineSettings(_Section):
    """How the attention engine reads documents; ``store`` is the folder of a block store (``rag index``), ``adapter``
    the file of a trained attention adapter. ``cache_precision`` is how keys and values are kept, in memory and in a
    store (null: in ``dtype``); int8 takes about a quarter of the memory of float32.
    """

    layout: Literal["block", "causal"] = "block"
    window_tokens: Annotated[int, Field(ge=8)] = 512
    overlap_tokens: Annotated[int, Field(ge=0)] = 64
    cache_bytes: ByteSize = ByteSize(1 << 30)
    dtype: Literal["float32", "bfloat16"] = "float32"
    cache_precision: Literal["float32", "float16", "bfloat16", "int8"] | None = None
    store: Path | None = None
    adapter: Path | None = None

    @model_validator(mode="after")
    def _overlap_fits(self) -> EngineSettings:
        if self.overlap_tokens >= self.window_tokens // 2:
            raise ValueError(
                f"overlap_tokens must be below half of window_tokens ({self.window_tokens}), "
                f"given {self.overlap_tokens}"
            )
        return self

    @field_serializer("cache_bytes")
    def _bytes(self, size: ByteSize) -> int:
        return int(size)


class StageSettings(_Section):
    """A stage by its registered name and its options; the bare name is accepted as shorthand."""

    name: str = Field(min_length=1)
    options: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    def __str__(self) -> str:
        options = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"{self.name}({options})" if options else self.name


class BudgetSettings(_Section):
    """How much text the compressor may keep.

    Shorthand: ``512`` or ``"512 tokens"``, ``"2000 characters"``, ``"50%"`` or a number below 1 (ratio).
    """

    amount: FiniteFloat
    unit: Unit = "tokens"

    @model_validator(mode="before")
    @classmethod
    def _shorthand(cls, value: Any) -> Any:
        if isinstance(value, Budget):
            return {"amount": value.amount, "unit": value.unit}
        if isinstance(value, str):
            return _parse_budget(value)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"amount": value, "unit": "ratio" if 0 < value < 1 else "tokens"}
        return value

    @model_validator(mode="after")
    def _possible(self) -> BudgetSettings:
        self.budget()
        return self

    @field_serializer("amount")
    def _whole(self, amount: float) -> int | float:
        return int(amount) if amount == int(amount) else amount

    def __str__(self) -> str:
        return f"{self.amount * 100:g}%" if self.unit == "ratio" else f"{self.amount:g} {self.unit}"

    def budget(self) -> Budget:
        """The same as the value type that compressors take."""
        return Budget(self.amount, self.unit)


def read_budget(given: Any) -> Budget:
    """The budget of one call in the forms that the settings take; ``none`` keeps everything.

    Raises:
        BudgetError: an amount that is not possible.
        InputError: none of the accepted forms.
    """
    if _off(given) is None:
        return Budget(1.0, "ratio")
    try:
        return BudgetSettings.model_validate(given).budget()
    except ValidationError as error:
        (problem, *_) = error.errors()
        cause = problem.get("ctx", {}).get("error")
        message = problem["msg"].removeprefix("Value error, ")
        kind = type(cause) if isinstance(cause, RagError) else InputError
        raise kind(f"budget: {message} (given {shown(given)})") from None


def _parse_budget(text: str) -> dict[str, Any]:
    """Read ``"512"``, ``"512 tokens"``, ``"2000 characters"``, ``"50%"``, ``"0.5"`` or ``"0.5 ratio"``."""
    number, _, unit = text.strip().partition(" ")
    percent = number.endswith("%")
    try:
        amount = float(number.removesuffix("%"))
    except ValueError:
        raise ValueError(_BUDGET_FORMS) from None
    if percent:
        amount /= 100
    implied = "ratio" if percent or 0 < amount < 1 else "tokens"
    chosen = unit.strip() or implied
    if chosen not in get_args(Unit) or (percent and chosen != "ratio"):
        raise ValueError(_BUDGET_FORMS)
    return {"amount": amount, "unit": chosen}


_BUDGET_FORMS = "accepted forms: '512', '512 tokens', '2000 characters', '50%', '0.5'"


class LimitSettings(_Section):
    """Upper bounds on one request; above one of them the request is refused, never cut.

    ``read_tokens`` bounds the documents that one attention stage reads: their keys and values are in memory
    at once, about 29 KB per token with the default model in float32 (200,000 tokens: 6 GB).
    """

    query_tokens: PositiveInt = 512
    read_tokens: PositiveInt = 200_000
    documents: PositiveInt = 1000
    document_characters: PositiveInt = 1_000_000
    total_characters: PositiveInt = 8_000_000


Scope = Literal["infer", "corpora:read", "corpora:write", "metrics"]
"""What an API key may do: rank, compress and embed what it sends; ask stored corpora; change them; read metrics."""


class KeySettings(_Section):
    """An API key: its name for logs and errors, and the SHA-256 of it (`rag serve keys new` makes both).

    ``corpora`` names the stored corpora it may use (None: all); ``requests_per_minute`` bounds it (None: nothing).
    """

    name: Annotated[str, Field(min_length=1, max_length=64)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    scopes: tuple[Scope, ...] = ("infer", "corpora:read")
    corpora: tuple[str, ...] | None = None
    requests_per_minute: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None


class CorporaSettings(_Section):
    """Corpora that the service stores: how many, how large each may be, and where they are kept.

    ``bytes`` counts a corpus as JSON lines. Without a ``folder`` (of one service alone) they are gone when the
    service ends. They are in memory, and need ``server.workers`` 1.
    """

    count: PositiveInt = 16
    documents: PositiveInt = 10_000
    bytes: Annotated[ByteSize, Field(gt=0, le=16_000_000)] = ByteSize(16_000_000)
    folder: Path | None = None

    @field_serializer("bytes")
    def _bytes(self, size: ByteSize) -> int:
        return int(size)


class ServerSettings(_Section):
    """Where and how the HTTP service listens.

    ``queue`` bounds the requests that run or wait, ``concurrency`` those that run. One attention pass reads up to
    ``batch_tokens`` document tokens for up to ``batch_requests`` requests. Without ``keys`` anyone may use the
    service; ``requests_per_minute`` then bounds all of them together. ``cors_origins`` are the pages that
    browsers may call it from. Limits and queues are those of one worker process.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8484
    workers: PositiveInt = 1
    max_body_bytes: ByteSize = ByteSize(8 << 20)
    queue: PositiveInt = 64
    concurrency: PositiveInt = 32
    batch_tokens: PositiveInt = 100_000
    batch_requests: PositiveInt = 32
    keys: tuple[KeySettings, ...] = ()
    requests_per_minute: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    cors_origins: tuple[str, ...] = ()
    log_format: Literal["text", "json"] = "text"
    log_bodies: bool = False
    corpora: CorporaSettings = CorporaSettings()

    @model_validator(mode="after")
    def _keys_differ(self) -> ServerSettings:
        names, hashes = [key.name for key in self.keys], [key.sha256 for key in self.keys]
        if len(set(names)) < len(names) or len(set(hashes)) < len(hashes):
            raise ValueError("each of the keys must have a name and a sha256 of its own")
        return self

    @field_serializer("max_body_bytes")
    def _bytes(self, size: ByteSize) -> int:
        return int(size)


def _off(value: Any) -> Any:
    """Read the words ``none`` and ``null`` as "stage off", for flags that can only carry text."""
    return None if isinstance(value, str) and value.strip().lower() in {"none", "null"} else value


OptionalStage = Annotated[StageSettings | None, BeforeValidator(_off)]


class _YamlEnvironment(EnvSettingsSource):
    """Environment variables whose values are YAML: JSON for those who like it, bare words for the rest."""

    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:  # noqa: ARG002
        """Parse the text of a variable that may hold a section (called by pydantic-settings)."""
        try:
            return yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(f"not YAML: {_one_line(error)}") from None


class Settings(BaseSettings):
    """The whole configuration, immutable. ``Settings(**explicit)`` reads the environment too.

    A stage that is ``None`` is off. ``retrieve_k`` candidates reach the reranker (never fewer than
    ``top_n``), the best ``top_n`` of them reach the reader. ``budget`` bounds the kept text (default
    512 tokens; ``None``: everything is kept). A YAML file is named by `load` or by ``RAG_CONFIG``.
    Unknown ``RAG_*`` variables are ignored, since a surrounding application may own them; unknown
    keys below a known section, in a file or among the arguments are refused.

    Raises:
        ConfigError: a key or a value that is not accepted, naming its path, what was given and what is accepted.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix="RAG_",
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        env_ignore_empty=True,
        env_parse_none_str="null",
        nested_model_default_partial_update=True,
    )

    model: Annotated[str, Field(min_length=1)] = "smollm2-135m"
    embedder: Annotated[str, Field(min_length=1)] = "minilm"
    embedding_cache_bytes: Annotated[ByteSize, Field(ge=0)] = ByteSize(256 << 20)
    device: Device = "auto"
    threads: PositiveInt | None = None
    engine: EngineSettings = EngineSettings()
    retriever: StageSettings = StageSettings(name="fused")
    reranker: OptionalStage = StageSettings(name="probe")
    compressor: OptionalStage = StageSettings(name="sentinel")
    ordering: OptionalStage = StageSettings(name="ranked")
    retrieve_k: PositiveInt = 20
    top_n: PositiveInt = 5
    budget: Annotated[BudgetSettings | None, BeforeValidator(_off)] = BudgetSettings(amount=512)
    context_template: Annotated[str, AfterValidator(check_template)] = "[{number}] {title}\n{text}"
    context_separator: str = "\n\n"
    limits: LimitSettings = LimitSettings()
    server: ServerSettings = ServerSettings()

    def __init__(self, **explicit: Any) -> None:
        try:
            super().__init__(**explicit)
        except ValidationError as error:
            raise ConfigError("configuration: " + "; ".join(map(_problem, error.errors()))) from None
        except SettingsError as error:
            raise ConfigError(f"configuration: {error}: {error.__cause__}") from None

    @classmethod
    def load(cls, path: str | Path | None = None, **explicit: Any) -> Settings:
        """Read the YAML file at ``path`` (default: the one ``RAG_CONFIG`` names, if set) below everything else."""
        token = _file.set(Path(path) if path is not None else None)
        try:
            return cls(**explicit)
        finally:
            _file.reset(token)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Explicit arguments over the environment over the YAML file (called by pydantic-settings)."""
        named = os.environ.get(CONFIG_VARIABLE)
        path = _file.get() or (Path(named) if named else None)
        return (
            init_settings,
            _YamlEnvironment(settings_cls),
            InitSettingsSource(settings_cls, _read_yaml(path) if path else {}),
        )

    def to_dict(self) -> dict[str, Any]:
        """All settings as plain JSON values."""
        return self.model_dump(mode="json")

    def to_yaml(self) -> str:
        """All settings as YAML; `load` of it gives equal settings."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)


def _read_yaml(path: Path) -> dict[str, Any]:
    """The mapping held by a YAML file; an empty file is an empty mapping."""
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"cannot read configuration {str(path)!r}: {_one_line(error)}") from None
    if data is None:
        return {}
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(f"configuration {str(path)!r} must be a mapping of names to values, got {shown(data)}")
    return data


def _problem(item: Mapping[str, Any]) -> str:
    """One pydantic error as ``path: what is accepted (given ...)``."""
    location = tuple(str(part) for part in item["loc"])
    path = ".".join(location) or "top level"
    if item["type"] == "extra_forbidden":
        return f"{path}: unknown key (given {shown(item['input'])}); accepted: {', '.join(_keys(location[:-1]))}"
    return f"{path}: {item['msg'].removeprefix('Value error, ')} (given {shown(item['input'])})"


def _keys(location: tuple[str, ...]) -> tuple[str, ...]:
    """The keys of the section at ``location`` (empty: the top level)."""
    model: type[BaseModel] = Settings
    for part in location:
        annotation = model.model_fields[part].annotation
        options = get_args(annotation) or (annotation,)
        model = next(option for option in options if isinstance(option, type) and issubclass(option, BaseModel))
    return tuple(model.model_fields)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
