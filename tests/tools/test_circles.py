"""A circle of imports is found, wherever its modules stand."""

from tests.tools.test_classes import load

tidy = load("tidy")
tool = load("circles")


def circles(imports):
    sources = [
        tidy.read_source(
            f"src/penstock/net/{name}.py",
            "\n".join(['"""What it is."""', *(f"import penstock.net.{other}" for other in others)]),
        )
        for name, others in imports.items()
    ]
    return list(tool.check_circles(sources))


def test_modules_that_import_each_other_are_found_once_and_named_in_order():
    found = circles({"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": []})
    assert len(found) == 1
    names = ("a", "b", "c", "a")
    assert found[0].text.startswith(" > ".join(f"penstock.net.{name}" for name in names))


def test_two_ways_to_one_module_are_no_circle():
    assert circles({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}) == []


def test_an_import_for_types_alone_closes_a_circle_too():
    importing = '"""What it is."""\nif TYPE_CHECKING:\n    from penstock.net import b\n'
    sources = [
        tidy.read_source("src/penstock/net/a.py", importing),
        tidy.read_source("src/penstock/net/b.py", '"""What it is."""\nimport penstock.net.a\n'),
    ]
    assert len(list(tool.check_circles(sources))) == 1


def test_a_circle_beside_the_source_is_found_too():
    sources = [
        tidy.read_source("benchmarks/a.py", '"""What it is."""\nfrom benchmarks import b\n'),
        tidy.read_source(
            "benchmarks/b.py",
            '"""What it is."""\ndef late():\n    from benchmarks.a import x\n',
        ),
    ]
    assert len(list(tool.check_circles(sources))) == 1


def test_a_package_whose_command_line_takes_only_modules_of_it_is_no_circle():
    package = '"""What it is."""\ndef run():\n    from benchmarks.peers.__main__ import main\n'
    main = '"""What it is."""\nfrom benchmarks.peers import report\n'
    sources = [
        tidy.read_source("benchmarks/peers/__init__.py", package),
        tidy.read_source("benchmarks/peers/__main__.py", main),
        tidy.read_source("benchmarks/peers/report.py", '"""What it is."""\n'),
    ]
    assert list(tool.check_circles(sources)) == []
