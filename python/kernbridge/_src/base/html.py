"""What notebooks show of an object: a table."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any


def table(title: str, headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    def row(cells: Iterable[Any], tag: str) -> str:
        texts = (f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
        return f"<tr>{''.join(texts)}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    head = f"<thead>{row(headers, 'th')}</thead>" if body else ""
    return f"<table><caption>{html.escape(title)}</caption>{head}<tbody>{body}</tbody></table>"
