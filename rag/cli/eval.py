"""``rag eval``: measure rankings and contexts on collections with judgements."""

from __future__ import annotations

import typer

from rag.cli.eval_breakeven import breakeven
from rag.cli.eval_context import context
from rag.cli.eval_passages import distractors, position, utility
from rag.cli.eval_reports import compare, report, synthetic
from rag.cli.eval_retrieval import retrieval
from rag.cli.eval_stability import stability

eval_app = typer.Typer(no_args_is_help=True, help="Evaluate rankings and contexts on collections with judgements.")

eval_app.command()(retrieval)
eval_app.command()(report)
eval_app.command()(compare)
eval_app.command()(synthetic)
eval_app.command()(context)
eval_app.command()(stability)
eval_app.command()(breakeven)
eval_app.command()(utility)
eval_app.command()(distractors)
eval_app.command()(position)
