"""A retrieval record as one HTML file that needs nothing else: tables, bars, both rankings of any query.

Everything from the record goes through `html.escape`, or as JSON into a script's text with ``<`` escaped. The page
forbids itself any other script (a content security policy with the digest of its own) and any connection.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

from rag.eval import report_tables
from rag.eval.failures import Difference, Shown
from rag.eval.report_record import baseline_of, measures_of, systems_of
from rag.eval.report_tables import Table

_EXPLORER = """
<section id="explorer" hidden aria-labelledby="explorer-title">
<h2 id="explorer-title">Query by query</h2>
<p class="dim">Choose a query to see both rankings; choose a heading to sort.</p>
<div class="tools">
<label>System <select id="choose-system"></select></label>
<label>Measure <select id="choose-measure"></select></label>
<label>Query holds <input id="search" type="search" autocomplete="off"></label>
<span id="found" class="dim" role="status"></span>
</div>
<div id="explorer-panel" tabindex="-1"></div>
<div class="scroll" role="region" aria-labelledby="explorer-title" tabindex="0"><table><thead><tr>
<th class="name" scope="col"><button type="button" data-column="query">query<span></span></button></th>
<th scope="col"><button type="button" data-column="baseline">{baseline}<span></span></button></th>
<th scope="col"><button type="button" data-column="system"><b id="system-heading"></b><span></span></button></th>
<th scope="col"><button type="button" data-column="difference">difference<span></span></button></th>
<th scope="col"><button type="button" data-column="relevant">relevant<span></span></button></th>
</tr></thead><tbody id="explorer-rows"></tbody></table></div>
<p><button type="button" id="more" hidden>Show more</button></p>
</section>
"""


def html_report(record: Mapping[str, Any], count: int = 5) -> str:
    """The page, with ``count`` losses and gains of every system; all queries are in the explorer."""
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    name = str(record.get("collection", "Evaluation"))
    data = {
        "baseline": baseline_of(record),
        "systems": systems_of(record),
        "measures": measures_of(record),
        "questions": record.get("questions", []),
        "titles": record.get("titles", {}),
    }
    return "\n".join(
        (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(name)}: retrieval</title>",
            f"<style>\n{_asset('report.css')}</style>\n</head>\n<body>\n<main>",
            f"<h1>{escape(name)}: retrieval</h1>",
            *(f'<p class="note">{escape(note)}</p>' for note in record.get("warnings", ())),
            _facts(record),
            "<h2>Figures</h2>",
            _table(report_tables.summary(record), "Figures"),
            '<p class="dim">In brackets: 95 % intervals, bootstrap over queries. p: two-sided, adjusted over the '
            "systems (Holm).</p>",
            _bars(record),
            _section("Against the baseline", report_tables.against(record), text_columns=2),
            _section("Time and tokens", report_tables.cost(record)),
            _failures(record, count),
            _EXPLORER.format(baseline=escape(baseline_of(record))),
            f'</main>\n<script type="application/json" id="data">{_script_json(data)}</script>',
            f"<script>{script}</script>\n</body>\n</html>\n",
        )
    )


def _asset(name: str) -> str:
    return (resources.files("rag.eval") / name).read_text(encoding="utf-8")


def _script_json(value: object) -> str:
    """JSON that can stand in a script element: nothing in it can end the element or start a comment."""
    return json.dumps(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _facts(record: Mapping[str, Any]) -> str:
    lines = (f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in report_tables.facts(record))
    return f'<dl class="facts">{"".join(lines)}</dl>'


def _section(title: str, table: Table, text_columns: int = 1) -> str:
    return f"<h2>{escape(title)}</h2>{_table(table, title, text_columns)}" if table.rows else ""


def _table(table: Table, name: str, text_columns: int = 1) -> str:
    def kind(place: int) -> str:
        return "name" if place < text_columns else "figure"

    heads = "".join(
        f'<th scope="col" class="{"name" if place < text_columns else ""}">{escape(text)}</th>'
        for place, text in enumerate(table.headings)
    )
    rows = "".join(
        "<tr>" + "".join(f'<td class="{kind(place)}">{escape(cell)}</td>' for place, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{escape(name)}" tabindex="0">'
        f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _bars(record: Mapping[str, Any]) -> str:
    figures = "".join(
        f"<figure><figcaption>{escape(measure)}</figcaption>"
        + "".join(_bar(row, measure, row["system"] == baseline_of(record)) for row in record["systems"])
        + "</figure>"
        for measure in measures_of(record)
    )
    return f'<div class="bars">{figures}</div>'


def _bar(row: Mapping[str, Any], measure: str, is_baseline: bool) -> str:
    """One bar from 0 to 1 with its interval; the figures stand beside it as text."""
    value = float(row[measure])
    low, high = float(row.get(f"{measure} low", value)), float(row.get(f"{measure} high", value))
    width = 100 * min(max(value, 0.0), 1.0)
    whisker = "".join(
        f'<line x1="{a:.2f}" x2="{b:.2f}" y1="{c}" y2="{d}"/>'
        for a, b, c, d in (
            (100 * low, 100 * high, 8, 8),
            (100 * low, 100 * low, 4, 12),
            (100 * high, 100 * high, 4, 12),
        )
        if high > low
    )
    return (
        f'<div class="bar{" baseline" if is_baseline else ""}">'
        f'<div class="label"><span>{escape(row["system"])}</span><span class="figure">{value:.4f}</span></div>'
        f'<svg viewBox="0 0 100 16" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(row["system"])}, {escape(measure)}: {value:.4f}, interval {low:.3f} to {high:.3f}">'
        f'<rect width="{width:.2f}" height="16"/>{whisker}</svg></div>'
    )


def _failures(record: Mapping[str, Any], count: int) -> str:
    parts = []
    for name, losses, gains in report_tables.failures(record, count):
        for what, items in (("losses", losses), ("gains", gains)):
            if items:
                parts.append(f"<h3>{escape(name)}: largest {what}</h3>{''.join(map(_difference, items))}")
    return f"<h2>Where systems and baseline differ most</h2>{''.join(parts)}" if parts else ""


def _difference(item: Difference) -> str:
    side = "gain" if item.difference > 0 else "loss"
    return (
        f'<details><summary><span class="{side} figure">{item.difference:+.4f}</span> '
        f"{escape(item.query)}: {escape(item.text)}</summary><div><p>{escape(item.measure)}: {item.value:.4f}, "
        f"{escape(item.baseline)} {item.baseline_value:.4f}</p>"
        f'<div class="pair">{_ranking(item.baseline, item.baseline_ranking)}{_ranking(item.system, item.ranking)}</div>'
        "</div></details>"
    )


def _ranking(name: str, ranking: tuple[Shown, ...]) -> str:
    items = "".join(
        f'<li><span class="grade{" yes" if (shown.grade or 0) > 0 else ""}">'
        f"{'–' if shown.grade is None else shown.grade}</span>"
        f"{escape(f'{shown.id}: {shown.title}' if shown.title else shown.id)}</li>"
        for shown in ranking
    )
    return f"<div><h4>{escape(name)}</h4>{f'<ol>{items}</ol>' if items else '<p>nothing found</p>'}</div>"
