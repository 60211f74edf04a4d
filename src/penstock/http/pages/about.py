"""The OpenAPI document, and a page that shows it to a person, with nothing from elsewhere.

Source: ours.
"""

from html import escape
from typing import Any

import msgspec

from penstock.http.call import JSON, Call
from penstock.http.pages.openapi import document

_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Penstock over HTTP</title>
<style>body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}
code,pre{background:#eee;padding:.1em .3em}pre{padding:1em;overflow:auto}</style></head><body>
<h1>Penstock over HTTP</h1>
<p>Every request but those for this page, <code>/openapi.json</code> and <code>/health</code> has
the header <code>Authorization: Bearer TOKEN</code>.</p>
"""


async def openapi(call: Call) -> None:
    """Answer with the document."""
    await call.answer_bytes(document(), JSON)


async def api_page(call: Call) -> None:
    """Answer with the page."""
    await call.answer_bytes(_page().encode(), "text/html; charset=utf-8")


def _page() -> str:
    told = msgspec.json.decode(document())
    parts = [_HEAD]
    for path, item in told["paths"].items():
        methods = [name for name in ("get", "post") if name in item]
        parts += [_operation(name, path, item[name]) for name in methods]
    parts.append("<h2>Bodies</h2>")
    for name, schema in sorted(told["components"]["schemas"].items()):
        text = msgspec.json.format(msgspec.json.encode(schema), indent=2).decode()
        parts.append(f'<h3 id="{escape(name)}">{escape(name)}</h3><pre>{escape(text)}</pre>')
    return "".join(parts) + "</body></html>\n"


def _operation(method: str, path: str, told: dict[str, Any]) -> str:
    text = f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(told['summary'])}</p>"
    body = told.get("requestBody")
    if body is not None:
        name = body["content"][JSON]["schema"]["$ref"].rpartition("/")[2]
        text += f'<p>Body: <a href="#{escape(name)}">{escape(name)}</a></p>'
    fields = [one["name"] for one in told.get("parameters", ())]
    if fields:
        text += f"<p>Query: {', '.join(f'<code>{escape(one)}</code>' for one in fields)}</p>"
    return text
