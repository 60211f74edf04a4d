"""Planted bugs that leave a door open which somebody believes to be closed."""

# ruff: noqa: E501  the text of the source, as it stands there

from .mutant import Kind, plant

EXPOSURE = ("tests/node/test_exposure.py",)
SECURED = ("tests/cli/test_secured.py",)
LISTENERS = ("tests/node/test_tls_of_listeners.py",)
CERTIFICATES = ("tests/access/test_issuing.py",)

MUTANTS = (
    plant(
        "exposure-asked-certificate-suffices",
        "Access",
        "a listener where certificates are only asked for counts as one that knows its clients",
        ("node/access/exposure.py", 'ssl_client_auth == "required"', 'ssl_client_auth != "none"'),
        kind=Kind.GUARD,
        near=EXPOSURE,
    ),
    plant(
        "exposure-tls-suffices",
        "Access",
        "a listener that is encrypted counts as one that knows its clients",
        ("node/access/exposure.py", "(protocol.has_tls and is_certified)", "protocol.has_tls"),
        kind=Kind.GUARD,
        near=EXPOSURE,
    ),
    plant(
        "exposure-one-loopback-address-suffices",
        "Access",
        "a name that has an address of the network beside a loopback one counts as unreachable",
        ("node/access/exposure.py", "all(address.is_loopback", "any(address.is_loopback"),
        kind=Kind.RANGE,
        near=EXPOSURE,
    ),
    plant(
        "exposure-of-the-first-listener-only",
        "Access",
        "further listeners let in everybody, and the node starts",
        (
            "node/access/exposure.py",
            "for listener in (first, *settings.bound_listeners()):",
            "for listener in (first,):",
        ),
        kind=Kind.RANGE,
        near=EXPOSURE,
    ),
    plant(
        "exposure-one-permission-is-for-all",
        "Access",
        "an open listener that is named lets every other one be open too",
        (
            "node/access/exposure.py",
            "if name in settings.security.open_listeners or",
            "if settings.security.open_listeners or",
        ),
        kind=Kind.GUARD,
        near=EXPOSURE,
    ),
    plant(
        "exposure-settings-of-all-listeners",
        "Access",
        "a listener counts by the section's certificates, whatever is set for it alone",
        (
            "node/access/exposure.py",
            "security.of_listener(name).ssl_client_auth",
            "security.ssl_client_auth",
        ),
        kind=Kind.STALE,
        near=EXPOSURE,
    ),
    plant(
        "secured-directory-starts-open",
        "Access",
        "what was closed with --secure is open after a start without it",
        (
            "cli/launch/secured.py",
            '        if place.exists():\n            raise ConfigError(\n                f"{directory} was closed',
            '        if not place.parent.exists():\n            raise ConfigError(\n                f"{directory} was closed',
        ),
        kind=Kind.GUARD,
        near=SECURED,
    ),
    plant(
        "secured-file-for-the-group",
        "Access",
        "the password and keys can be read by the user's group",
        (
            "cli/launch/node_files.py",
            "os.O_EXCL | os.O_CLOEXEC, 0o600)",
            "os.O_EXCL | os.O_CLOEXEC, 0o640)",
        ),
        kind=Kind.GUARD,
        near=SECURED,
    ),
    plant(
        "secured-listener-of-all-mechanisms",
        "Access",
        "a setting for one listener takes away the mechanism that the first user has",
        (
            "cli/launch/secured.py",
            "security.of_listener(FIRST_LISTENER).sasl_enabled_mechanisms",
            "security.sasl_enabled_mechanisms",
        ),
        kind=Kind.STALE,
        near=SECURED,
    ),
    plant(
        "secured-checked-before-the-environment",
        "Access",
        "a variable of the environment opens what --secure has closed",
        (
            "cli/launch/launcher.py",
            "        check_closed(settings)\n",
            "        check_closed(load_settings(None, environment={}, overrides=overrides))\n",
        ),
        kind=Kind.STALE,
        near=SECURED,
    ),
    plant(
        "probe-takes-any-server",
        "Access",
        "a server that does not know the user's password is reported as the node",
        (
            "cli/launch/probe.py",
            "    if not scram.is_servers(await send(scram.final(await send(scram.first())))):\n        raise LoginRefused\n",
            "    await send(scram.final(await send(scram.first())))\n",
        ),
        kind=Kind.GUARD,
        near=SECURED,
    ),
    plant(
        "certificate-of-another-authority-kept",
        "Access",
        "a node keeps a certificate that its clients do not trust",
        (
            "access/issuing.py",
            "        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))\n",
            "",
        ),
        kind=Kind.GUARD,
        near=CERTIFICATES,
    ),
    plant(
        "certificate-kept-to-its-last-day",
        "Access",
        "a certificate ends while the node that was started with it still runs",
        ("access/issuing.py", "timedelta(days=RENEW_DAYS)", "timedelta(days=0)"),
        kind=Kind.RANGE,
        near=CERTIFICATES,
    ),
    plant(
        "server-certificate-signs-others",
        "Access",
        "whoever has the key of a node makes certificates that clients trust",
        (
            "access/issuing.py",
            "(x509.BasicConstraints(ca=False, path_length=None), True)",
            "(x509.BasicConstraints(ca=True, path_length=None), True)",
        ),
        kind=Kind.GUARD,
        near=CERTIFICATES,
    ),
    plant(
        "tls-lists-are-read-and-not-asked",
        "Access",
        "lists of revoked certificates are loaded, and no certificate is looked for in them",
        (
            "node/access/certificates.py",
            "    context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF\n",
            "",
        ),
        kind=Kind.GUARD,
        near=LISTENERS,
    ),
    plant(
        "tls-names-without-lists",
        "Access",
        "a client that asks for a name is not looked for in lists of revoked certificates",
        (
            "node/access/certificates.py",
            "        by_name[name] = _context(settings, path, path, application)",
            '        by_name[name] = _context(replace(settings, ssl_revocation_file=""), path, path)',
        ),
        (
            "node/access/certificates.py",
            "from functools import partial",
            "from dataclasses import replace\nfrom functools import partial",
        ),
        kind=Kind.GUARD,
        near=LISTENERS,
    ),
    plant(
        "tls-wild-name-covers-all-below",
        "Access",
        "a certificate for *.NAME is shown for names with two parts more as well",
        (
            "node/access/certificates.py",
            'by_name.get("*." + asked.partition(".")[2])',
            'by_name.get("*." + ".".join(asked.split(".")[-2:]))',
        ),
        kind=Kind.RANGE,
        near=LISTENERS,
    ),
    plant(
        "tls-files-of-names-are-not-watched",
        "Access",
        "a certificate for a name that is renewed is not read again",
        (
            "node/access/certificates.py",
            "        *settings.server_names().values(),\n",
            "",
        ),
        kind=Kind.STALE,
        near=LISTENERS,
    ),
)
