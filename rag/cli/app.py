"""Entry point: the commands, and how errors and interrupts leave the process."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from rag.cli.bench import bench_app
from rag.cli.bench_peers import peers, retrieval
from rag.cli.bench_rerankers import rerankers
from rag.cli.config import config_app
from rag.cli.context import context
from rag.cli.demo import demo
from rag.cli.eval import eval_app
from rag.cli.explain import explain
from rag.cli.heads import heads_app
from rag.cli.index import index
from rag.cli.ltr import ltr_app
from rag.cli.models import models_app
from rag.cli.order import order_app
from rag.cli.probe import probe_app
from rag.cli.results import results
from rag.cli.serve import serve
from rag.errors import InputError, RagError, shown

EXIT_INPUT, EXIT_FAILURE, EXIT_INTERRUPT = 2, 1, 130

app = typer.Typer(name="rag", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command()(context)
app.command()(explain)
app.command()(index)
app.command()(serve)
app.command()(demo)
app.command()(results)
bench_app.command()(peers)
bench_app.command()(retrieval)
bench_app.command()(rerankers)
app.add_typer(models_app, name="models")
app.add_typer(config_app, name="config")
app.add_typer(heads_app, name="heads")
app.add_typer(probe_app, name="probe")
app.add_typer(ltr_app, name="ltr")
app.add_typer(eval_app, name="eval")
app.add_typer(bench_app, name="bench")
app.add_typer(order_app, name="order")


def _print_version(wanted: bool) -> None:
    if wanted:
        from rag import __version__

        typer.echo(f"rag {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Decide what an LLM gets to read: rank documents by attention, keep the sentences that matter, order them."""


def main() -> None:
    """Run the command line: exit code 0, 2 for input that is not accepted, 1 for a failure, 130 for Ctrl-C."""
    try:
        app()
    except RagError as error:
        sys.stderr.write(f"error[{error.code}]: {error}\n")
        sys.exit(EXIT_INPUT if isinstance(error, InputError) else EXIT_FAILURE)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPT)
    except BrokenPipeError:
        # The reader of our output has gone (`rag ... | head`); nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_FAILURE)
    except OSError as error:
        # With a name it is a file that the command line gave; without one it is the machine (a full disk).
        status, code = (EXIT_INPUT, InputError.code) if error.filename else (EXIT_FAILURE, RagError.code)
        where = f"{shown(str(error.filename), 300)}: " if error.filename else ""
        sys.stderr.write(f"error[{code}]: {where}{error.strerror or error}\n")
        sys.exit(status)
