"""Loading a resolved model: no network, no remote code, no pickles, no noise, and no random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from rag.errors import ConfigError, ModelNotFoundError, UnsupportedModelError
from rag.models.quiet import quiet
from rag.models.resolve import ResolvedModel

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder, SentenceTransformer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

M = TypeVar("M")
DType = Literal["float32", "float16", "bfloat16"]


def load_decoder(
    resolved: ResolvedModel, *, device: str = "cpu", dtype: DType = "float32", attn_implementation: str = "sdpa"
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """The bare decoder (no language-model head) in eval mode without gradients, and its tokenizer.

    Args:
        resolved: a model of kind "llm".
        device: a torch device, such as "cpu" or "cuda:0".
        dtype: the weights' type.
        attn_implementation: a name in transformers' attention interface.

    Raises:
        ConfigError: a dtype or device that this machine does not have.
        ModelNotFoundError: the folder cannot be loaded, or lacks weights the architecture needs.
    """
    from transformers import AutoModel

    return _load(AutoModel, resolved, device, dtype, attn_implementation)


def load_causal_lm(
    resolved: ResolvedModel, *, device: str = "cpu", dtype: DType = "float32", attn_implementation: str = "sdpa"
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """As `load_decoder`, with the language-model head: a model that gives logits and generates."""
    from transformers import AutoModelForCausalLM

    return _load(AutoModelForCausalLM, resolved, device, dtype, attn_implementation)


def load_embedder(resolved: ResolvedModel, *, device: str = "cpu") -> SentenceTransformer:
    """The sentence-transformers model of a folder of kind "embedder".

    Raises:
        ConfigError: a device that this machine does not have.
        ModelNotFoundError: the folder cannot be loaded.
    """
    from sentence_transformers import SentenceTransformer

    model = _from_folder(SentenceTransformer, resolved, device)
    return model.eval().requires_grad_(False)


def _from_folder(kind: Callable[..., M], resolved: ResolvedModel, device: str) -> M:
    """A model of sentence-transformers from its folder alone: no network, no remote code, nothing unpickled."""
    checked = _device(device)
    try:
        with quiet():
            return kind(
                str(resolved.path),
                device=checked,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )
    except (OSError, ValueError, ImportError, KeyError, RuntimeError) as error:
        raise _unloadable(resolved, error) from error


def load_cross_encoder(resolved: ResolvedModel, *, device: str = "cpu") -> CrossEncoder:
    """The sentence-transformers cross-encoder of a folder of kind "cross-encoder": one relevance score per pair.

    Raises:
        ConfigError: a device that this machine does not have.
        ModelNotFoundError: the folder cannot be loaded.
        UnsupportedModelError: it holds another sort of model (an embedder, a decoder, a classifier of several labels).
    """
    from sentence_transformers import CrossEncoder

    model = _from_folder(CrossEncoder, resolved, device)
    _require_pair_scorer(resolved, model)
    ready: CrossEncoder = model.eval().requires_grad_(False)
    return ready


def _require_pair_scorer(resolved: ResolvedModel, model: CrossEncoder) -> None:
    """Refuse what sentence-transformers turns into a cross-encoder by giving it a head of random numbers."""
    from safetensors import safe_open

    network: Any = model.model
    found = type(network).__name__
    if not found.endswith("ForSequenceClassification"):
        raise _no_cross_encoder(resolved, f"it is a {found}")
    if network.config.num_labels != 1:
        raise _no_cross_encoder(resolved, f"it has {network.config.num_labels} labels")
    stored: set[str] = set()
    for file in resolved.path.glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            stored.update(weights.keys())
    body = f"{network.base_model_prefix}."
    if missing := sorted(name for name in network.state_dict() if not name.startswith(body) and name not in stored):
        raise _no_cross_encoder(resolved, f"its weights lack {', '.join(missing)}")


def _no_cross_encoder(resolved: ResolvedModel, reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(
        f"model {resolved.name!r} in {resolved.path} is no cross-encoder: {reason}; "
        "accepted: a sequence classification model with one label and its trained head"
    )


def _load(
    auto: Any, resolved: ResolvedModel, device: str, dtype: str, attn_implementation: str
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    import torch
    from transformers import AutoTokenizer

    if dtype not in get_args(DType):
        raise ConfigError(f"dtype {dtype!r}; accepted: {', '.join(get_args(DType))}")
    checked, path = _device(device), str(resolved.path)
    try:
        with quiet():
            tokenizer: Any = AutoTokenizer.from_pretrained(path, trust_remote_code=False, local_files_only=True)
            model, report = auto.from_pretrained(
                path,
                dtype=getattr(torch, dtype),
                attn_implementation=attn_implementation,
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=True,
                output_loading_info=True,
            )
    except (OSError, ValueError, ImportError, KeyError, RuntimeError) as error:
        raise _unloadable(resolved, error) from error
    # transformers fills weights that a checkpoint lacks with random numbers and only logs it.
    if missing := sorted(report["missing_keys"]):
        names = ", ".join(missing[:5])
        raise ModelNotFoundError(f"model {resolved.name!r} in {path} lacks {len(missing)} weights: {names}")
    if not tokenizer.is_fast:
        raise ModelNotFoundError(f"model {resolved.name!r} has no fast tokenizer (tokenizer.json), which spans need")
    return model.to(checked).eval().requires_grad_(False), tokenizer


def _device(device: str) -> str:
    """``device`` if torch can put a tensor there."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"device {device!r} cannot be used: {reason}; accepted: cpu, cuda, cuda:N, mps") from None
    return device


def _unloadable(resolved: ResolvedModel, error: Exception) -> ModelNotFoundError:
    return ModelNotFoundError(f"model {resolved.name!r} in {resolved.path} cannot be loaded: {error}")
