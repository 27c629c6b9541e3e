from __future__ import annotations

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
import yaml
from processes import heed_interrupts
from rich.console import Console

from rag.cli import main
from rag.cli.render import highlighted, render
from rag.results import ContextDocument, ContextResult, DroppedDocument, StageTrace, Usage
from rag.types import Document, Span

RAG = [sys.executable, "-c", "from rag.cli import main; main()"]


def clean_environment() -> dict[str, str]:
    kept = ("RAG_MODEL_STORE", "RAG_WHEELS")
    return {name: value for name, value in os.environ.items() if not name.startswith("RAG_") or name in kept}


def rag(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RAG, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        env=clean_environment() | {"COLUMNS": "120", "OMP_NUM_THREADS": "1"} | environment,
    )


def test_version_and_help():
    assert rag("--version").stdout.startswith("rag 0.")
    shown = rag("--help").stdout
    assert [
        name
        for name in ("context", "serve", "demo", "index", "heads", "eval", "bench", "models", "config")
        if name not in shown
    ] == []


def test_help_loads_no_torch():
    code = (
        "import sys; sys.argv = ['rag', 'context', '--help']\nfrom rag.cli import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([name for name in ('torch', 'transformers', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]"


def test_config_show_prints_the_settings_in_force(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("top_n: 3\nretrieve_k: 9\n")
    shown = yaml.safe_load(rag("config", "show", "--config", str(file), RAG_TOP_N="4").stdout)
    assert (shown["top_n"], shown["retrieve_k"], shown["server"]["port"]) == (4, 9, 8484)


@pytest.mark.parametrize(
    ("arguments", "code", "parts"),
    [
        (["context", "q", "x.pdf"], 2, ["error[invalid_input]", "x.pdf", ".jsonl"]),
        (["context", "q", "missing.txt"], 2, ["error[invalid_input]", "missing.txt"]),
        (["context", "q", "-", "--top-n", "0"], 2, ["error[invalid_input]", "top_n", "given 0"]),
        (["context", "q", "-", "--budget", "lots"], 2, ["error[invalid_input]", "budget", "accepted forms", "'lots'"]),
        (["context", "q", "-", "--retriever", "nope"], 2, ["error[invalid_configuration]", "nope", "bm25"]),
        (["context", "q", "-", "--budget", "0"], 2, ["error[impossible_budget]", "budget", "'0'"]),
        (["config", "show", "-c", "nope.yaml"], 2, ["error[invalid_configuration]", "nope.yaml"]),
        (["serve", "--port", "70000"], 2, ["error[invalid_configuration]", "server.port", "70000"]),
        (["models", "fetch", "nope"], 1, ["error[model_not_found]", "nope", "smollm2-135m"]),
    ],
)
def test_an_error_is_one_line_on_stderr_with_its_code(arguments, code, parts):
    done = rag(*arguments, stdin='{"text": "a"}')
    assert (done.returncode, done.stdout) == (code, "")
    assert [part for part in parts if part not in done.stderr] == []
    assert len(done.stderr.splitlines()) == 1


def test_usage_errors_exit_with_two():
    assert rag("context", "q").returncode == 2
    assert rag("no-such-command").returncode == 2


def test_interrupt_exits_with_130_and_no_traceback():
    process = subprocess.Popen(
        [*RAG, "context", "q", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
        preexec_fn=heed_interrupts,
    )
    time.sleep(3)  # by now it waits for standard input
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in out + err


@pytest.mark.usefixtures("smollm2")
def test_context_from_standard_input_as_json():
    lines = [
        {"id": "h", "text": "The harbour is fourteen metres deep."},
        {"id": "b", "text": "Bread is baked before dawn."},
        {"id": "e", "text": ""},
    ]
    stages = ["--retriever", "bm25", "--reranker", "none", "--compressor", "none", "--ordering", "none"]
    done = rag(
        "context",
        "How deep is the harbour?",
        "-",
        "--json",
        *stages,
        stdin="\n".join(json.dumps(line) for line in lines),
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [(item["id"], item["empty"]) for item in result["results"]] == [("h", False), ("b", False), ("e", True)]
    assert result["context"].startswith("[1]\nThe harbour is fourteen")


def answer() -> tuple[ContextResult, list[Document]]:
    source = Document("d1", "Drop this. Keep this [bold]one[/bold]. Drop that.", "Title")
    spans = (Span(11, 39),)
    kept = ContextDocument(
        "d1", 0, 1, 0.75, "Title", source.text[11:39], spans, (), 12, 7, 1, False, False, {"reranker": 0.75}, {}
    )
    empty = ContextDocument("d2", 1, 2, 0.0, "", "", (), (), 0, 0, 0, False, True, {}, {})
    result = ContextResult(
        query="what [red]matters[/red]?",
        results=(kept, empty),
        context="…",
        dropped=(DroppedDocument("d3", 2, "below_top_n", "", 3, 0.1),),
        usage=Usage(3, 40, 9, 31, 40, 0),
        trace=(StageTrace("retriever", "bm25", 0.012, 3, 3),),
        seconds=0.5,
        warnings=("something to know",),
        pipeline={},
    )
    return result, [source, Document("d2", ""), Document("d3", "x")]


def test_the_table_shows_what_was_kept_and_what_became_of_the_rest():
    console = Console(width=140, record=True, file=io.StringIO())
    render(*answer(), console)
    shown = console.export_text()
    for part in (
        "what [red]matters[/red]?",
        "7/12",
        "0.750",
        "Keep this [bold]one[/bold].",
        "(empty)",
        "1 below top n",
    ):
        assert part in shown
    assert "9 in the context, 40 in the corpus" in shown
    assert "warning: something to know" in shown


def test_kept_spans_are_bold_and_the_rest_is_dim():
    text = highlighted("Drop. Keep. Drop.", (Span(6, 11),))
    assert text.plain == "Drop. Keep. Drop."
    assert {(span.start, span.end): str(span.style) for span in text.spans if span.start < span.end} == {
        (0, 6): "dim",
        (6, 11): "bold",
        (11, 17): "dim",
    }


def test_a_preview_of_a_long_text_starts_near_the_first_kept_span():
    source = "x" * 5000 + "KEPT" + "y" * 5000
    text = highlighted(source, (Span(5000, 5004),), limit=200).plain
    assert "KEPT" in text
    assert text.startswith("… ")
    assert text.endswith(" …")
    assert len(text) == 200 + len("… ") + len(" …")


def run_here(monkeypatch, capsys, *arguments: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["rag", *arguments])
    with pytest.raises(SystemExit) as left:
        main()
    return int(left.value.code or 0), *capsys.readouterr()


def test_a_path_that_cannot_be_written_is_one_line(tmp_path, monkeypatch, capsys):
    def write(path: str) -> None:
        Path(path).write_text("report")

    command = typer.Typer()
    command.command()(write)
    monkeypatch.setattr("rag.cli.app.app", command)
    code, out, err = run_here(monkeypatch, capsys, str(tmp_path / "no" / "such" / "folder.json"))
    assert (code, out) == (2, "")
    assert err.startswith("error[invalid_input]: '")
    assert err.endswith("folder.json': No such file or directory\n")
    assert len(err.splitlines()) == 1


def test_a_failure_of_the_machine_is_one_line_and_no_fault_of_the_input(monkeypatch, capsys):
    def fill() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    command = typer.Typer()
    command.command()(fill)
    monkeypatch.setattr("rag.cli.app.app", command)
    assert run_here(monkeypatch, capsys) == (1, "", "error[internal_error]: No space left on device\n")


@pytest.mark.parametrize(
    ("line", "limit", "parts"),
    [
        ('{"text": "a", "n": NaN}', 9, ["error[invalid_input]", "c.jsonl:1", "NaN"]),
        ('{"text": "\\ud800"}', 9, ["error[not_text]", "c.jsonl:1", "surrogate"]),
        ('{"text": "abcd"}', 3, ["error[limit_exceeded]", "has 4 characters", "up to 3"]),
    ],
)
def test_index_refuses_what_no_request_could_hold(tmp_path, monkeypatch, capsys, line, limit, parts):
    file = tmp_path / "c.jsonl"
    file.write_text(line)
    monkeypatch.setenv("RAG_LIMITS__DOCUMENT_CHARACTERS", str(limit))
    code, out, err = run_here(monkeypatch, capsys, "index", str(file), "--blocks", str(tmp_path / "store"))
    assert (code, out) == (2, "")
    assert [part for part in parts if part not in err] == []
    assert not (tmp_path / "store").exists()
