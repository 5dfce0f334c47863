#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox"]
# ///
"""What the scripts do, for those who use nox: ``nox -l`` lists it."""

from __future__ import annotations

import nox

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
NIGHTLY = "https://pypi.anaconda.org/scientific-python-nightly-wheels/simple"
CORE = ("bags", "observations", "terms", "models", "evaluation")


@nox.session(venv_backend="none", default=True)
def tests(session: nox.Session) -> None:
    """Check everything, as the continuous integration does."""
    session.run("sh", "scripts/test", external=True)


@nox.session(venv_backend="none", default=False)
def oldest(session: nox.Session) -> None:
    """Run the tests with the oldest versions that are supported."""
    session.run("sh", "scripts/test", "constraints-oldest.txt", external=True)


@nox.session(venv_backend="none", default=False)
def docs(session: nox.Session) -> None:
    """Build the site."""
    session.run("sh", "scripts/docs", external=True)


@nox.session(venv_backend="none", default=False)
def release(session: nox.Session) -> None:
    """Build wheel and sdist, and try them in bare environments."""
    session.run("sh", "scripts/release", *session.posargs, external=True)


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Print the lines of the core that no test of the core reaches, and refuse more than 5%."""
    session.install("-c", "constraints.txt", "-e", ".[test]", "coverage")
    folders = [f"tests/{name}" for name in CORE]
    session.run("coverage", "run", "-m", "pytest", *folders, *session.posargs)
    session.run("coverage", "report")


@nox.session(default=False)
def nightly(session: nox.Session) -> None:
    """Run the tests of the core with tomorrow's versions of what it stands on."""
    session.install("-e", ".[test]")
    names = ("numpy", "scipy", "scikit-learn", "pandas")
    session.install("--pre", "--upgrade", "--extra-index-url", NIGHTLY, *names)
    session.run("pytest", "-m", "core", *session.posargs)


if __name__ == "__main__":
    nox.main()
