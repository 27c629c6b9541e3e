"""Loading a resolved model: no network, no remote code, no pickles, no noise, and no random weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from rag.errors import ConfigError, ModelNotFoundError
from rag.models.quiet import quiet
from rag.models.resolve import ResolvedModel

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

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

    checked = _device(device)
    try:
        with quiet():
            model = SentenceTransformer(
                str(resolved.path),
                device=checked,
                trust_remote_code=False,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            )
    except (OSError, ValueError, ImportError, KeyError, RuntimeError) as error:
        raise _unloadable(resolved, error) from error
    return model.eval().requires_grad_(False)


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
