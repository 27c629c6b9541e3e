"""``import rag`` is cheap, and gives what it promises."""

from __future__ import annotations

import subprocess
import sys

import rag

HEAVY = ("torch", "transformers", "numpy", "pydantic", "sentence_transformers", "faiss", "fastapi")


def fresh(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return done.stdout.strip()


def test_import_loads_nothing_heavy_and_is_quick(record_property):
    code = (
        "import sys, time; start = time.perf_counter(); import rag; seconds = time.perf_counter() - start;"
        f"print(seconds, *sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    runs = [fresh(code).split() for _ in range(3)]
    assert [run[1:] for run in runs] == [[], [], []]
    best = min(float(run[0]) for run in runs)
    record_property("import_seconds", best)
    assert best < 0.3


def test_configuration_corpus_and_command_line_load_no_torch():
    modules = "rag.config, rag.corpus, rag.pipeline, rag.registry, rag.cli"
    assert fresh(f"import sys, {modules}; print('torch' in sys.modules)") == "False"


def test_every_exported_name_is_there():
    assert {name: getattr(rag, name).__name__ for name in rag.__all__} == {name: name for name in rag.__all__}
    assert set(rag.__all__) <= set(dir(rag))
    assert rag.__version__[0].isdigit()
    assert not hasattr(rag, "no_such_name")
