"""Bugs in what a stranger meets first: what commands refuse, and how they tell it."""

from .mutant import Kind, plant

AREA = "Commands and their refusals"
BAD_INPUT = ("tests/cli/test_bad_input.py",)
REFUSALS = ("tests/cli/test_refusals.py",)

MUTANTS = (
    plant(
        "repair-takes-an-unseen-tier-topic-for-an-empty-one",
        AREA,
        "a cluster that has copied nothing calls all objects of the store its own and unneeded",
        (
            "cli/tier/repair.py",
            "    except TopicNotFound:\n        raise CommandFailed(",
            "    except TopicNotFound:\n        return range(0)\n        raise CommandFailed(",
        ),
        kind=Kind.GUARD,
        near=REFUSALS,
    ),
    plant(
        "the-password-of-a-new-user-is-read-from-a-file-that-all-see",
        AREA,
        "a file with a password is read whoever else may read it",
        (
            "cli/access/user.py",
            'read_private("--password-file", str(path))',
            "path.read_text()",
        ),
        kind=Kind.GUARD,
        near=BAD_INPUT,
    ),
    plant(
        "the-key-of-a-bucket-is-read-from-a-file-that-all-see",
        AREA,
        "a file with the secret key of a bucket is read whoever else may read it",
        (
            "cli/archive/places.py",
            'read_private("--store secret-key-file", keys["secret-key-file"])',
            'Path(keys["secret-key-file"]).read_text()',
        ),
        kind=Kind.GUARD,
        near=BAD_INPUT,
    ),
    plant(
        "a-file-is-taken-for-a-data-directory",
        AREA,
        "only what is absent is looked at, and a file is told by whatever fails on it",
        (
            "cli/values.py",
            "if path.exists() and not path.is_dir():",
            "if not path.exists() and path.is_dir():",
        ),
        kind=Kind.ORDER,
        near=BAD_INPUT,
    ),
    plant(
        "a-refused-configuration-of-all-brokers-has-no-name",
        AREA,
        "the configuration of all brokers is told by its empty name",
        ("client/admin.py", 'named = name or "default"', "named = name or str()"),
        kind=Kind.RANGE,
        near=REFUSALS,
    ),
    plant(
        "a-place-that-can-not-be-made-is-an-unknown-error",
        AREA,
        "of errors of a place only those are told that say that it may not be written",
        (
            "runtime/io/object_store.py",
            '    except OSError as error:\n        raise ConfigError(f"{path} can not be',
            '    except PermissionError as error:\n        raise ConfigError(f"{path} can not be',
        ),
        kind=Kind.RANGE,
        near=BAD_INPUT,
    ),
    plant(
        "the-place-without-an-archive-is-not-named",
        AREA,
        "the ledger's own words are told, which know no place",
        (
            "cli/archive/places.py",
            'raise NoArchive(f"{place} holds no archive: {_made_by(place)}") from None',
            "raise",
        ),
        kind=Kind.GUARD,
        near=BAD_INPUT,
    ),
    plant(
        "a-missing-topic-is-told-by-the-word-before-its-name",
        AREA,
        "the name of a topic that is not there is read from the wrong end of what was asked for",
        (
            "client/admin.py",
            'raise TopicNotFound(what.rpartition(" ")[2])',
            'raise TopicNotFound(what.partition(" ")[2])',
        ),
        kind=Kind.RANGE,
        near=REFUSALS,
    ),
)
