"""A GGUF file, once, into a plain folder of safetensors, config and tokenizer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from rag.errors import ModelNotFoundError, UnsupportedModelError

# Raise when the conversion changes what the model computes: folders made before are then made anew.
CONVERTER_VERSION = 1

_UNREADABLE = 3


def convert_gguf(gguf: Path, target: Path) -> None:
    """Dequantise ``gguf`` to float32 with transformers and save it as a folder that ``from_pretrained`` loads.

    Runs in a process of its own: the reader draws progress bars that cannot be turned off, and needs
    the memory of the model twice, which goes back to the system this way.

    Raises:
        UnsupportedModelError: transformers cannot read the file or its architecture.
        ModelNotFoundError: the conversion was killed (memory) or could not write (disk).
    """
    code = "import sys; from rag.models.convert import main; sys.exit(main(*sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(gguf), str(target)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode == 0:
        return
    reason = (done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode == _UNREADABLE:
        raise UnsupportedModelError(f"{gguf} cannot be read as a GGUF decoder: {reason}")
    if done.returncode < 0:
        reason = f"killed by signal {-done.returncode}; it needs about 18 times the file's size in memory at 4 bits"
    raise ModelNotFoundError(f"converting {gguf} failed: {reason}")


def main(gguf: str, target: str) -> int:
    """The conversion itself; returns the exit status of the process that runs it."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, folder = Path(gguf), Path(target)
    where: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True}
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source.parent), **where)
        model = AutoModelForCausalLM.from_pretrained(str(source.parent), **where, dtype=torch.float32)
    except Exception as error:  # the GGUF reader has no error type of its own
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)  # noqa: T201
        return _UNREADABLE
    folder.mkdir(parents=True, exist_ok=True)
    state = model.state_dict()
    # A tied output matrix is the embedding under a second name: stored once, tied again by the loader.
    shared = (model._tied_weights_keys or {}).items()
    tied = {name for name, of in shared if state[name].data_ptr() == state[of].data_ptr()}
    weights = {name: tensor.contiguous() for name, tensor in state.items() if name not in tied}
    save_file(weights, str(folder / "model.safetensors"), metadata={"format": "pt"})
    config = model.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    return 0
