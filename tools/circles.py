"""Modules that import each other, in src and beside it, also for types alone or in a function.

    python tools/circles.py [ROOT]

prints one line for each circle, and exits with 1 if there is any.
"""

import ast
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from tidy import Finding, Source, imported, name_of, read_sources

from penstock.cli.exit_codes import end_with


def check_circles(sources: Sequence[Source]) -> Iterator[Finding]:
    """Find modules that import each other; one sentence for each circle."""
    trees = {name_of(source.path): source for source in sources if source.tree}
    graph = {
        module: sorted(_ways(source, trees.keys() - {module})) for module, source in trees.items()
    }
    told: set[str] = set()
    for module in sorted(graph):
        circle = [] if module in told else _circle_of(module, graph)
        told |= set(circle)
        if circle:
            way = " > ".join([*circle, module])
            text = f"{way}: name what is needed by a protocol"
            yield Finding(trees[module].path, 1, "circle", text)


def _ways(source: Source, modules: Set[str]) -> set[str]:
    """Return what it imports of these; a package that it takes only modules from is none of it."""
    ways = set[str]()
    for node in ast.walk(source.tree) if source.tree else ():
        found = set(imported(node)) & modules
        if isinstance(node, ast.ImportFrom) and len(found) > len(node.names):
            found.discard(node.module or "")
        ways |= found
    return ways


def _circle_of(start: str, graph: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the shortest way from a module back to itself, or nothing where there is none."""
    came_from: dict[str, str] = {}
    waiting = [start]
    for module in waiting:
        for name in graph.get(module, ()):
            if name not in came_from:
                came_from[name] = module
                waiting.append(name)
    if start not in came_from:
        return []
    way = [came_from[start]]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return way[::-1]


def main(arguments: Sequence[str]) -> int:
    """Print the circles; return the exit status."""
    root = Path(arguments[0]) if arguments else Path(__file__).parents[1]
    found = list(check_circles(read_sources(root)))
    for one in found:
        print(one)
    print(f"circles: {len(found)} findings" if found else "circles: none")
    return 1 if found else 0


if __name__ == "__main__":
    end_with(lambda: main(sys.argv[1:]))
