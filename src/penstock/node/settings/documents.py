"""What each setting means: the text below its field in the source, for the pages and for operators.

A dataclass keeps no text for its fields, so it is read from the source, once for each class.
"""

import ast
import inspect
import itertools
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any


def field_documents(config: type[Any]) -> Mapping[str, str]:
    """Return the text below each field of a settings class; empty where no source is installed."""
    return _documents(config.__module__, config.__name__)


@cache
def _documents(module: str, class_name: str) -> Mapping[str, str]:
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    (found,) = (
        node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name
    )
    documents = {}
    for target, text in itertools.pairwise(found.body):
        match target, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(document))),
            ):
                documents[name] = inspect.cleandoc(document)
            case _:
                pass
    return documents
