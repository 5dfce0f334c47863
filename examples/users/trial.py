"""What the trials share: commands run as users run them, and numbers held against the truth."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Sequence
from typing import Any

from unbag.cli import main

# A 95% interval misses one truth in twenty; one and a half times as wide, three in a thousand.
ROOM = 1.5


class Trial:
    """Runs commands, and keeps account of what they say."""

    def __init__(self) -> None:
        self.wrong: list[str] = []

    def run(self, *arguments: Any, code: int = 0) -> str:
        """Run a command of unbag; give what it prints, remarks and results together."""
        words = list(map(str, arguments))
        print("$ unbag", *words)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            found = main(words)
        if found != code:
            self.wrong.append(f"unbag {words[0]} ended with {found}, not {code}")
            print(printed.getvalue())
        return printed.getvalue()

    def run_json(self, *arguments: Any) -> dict[str, Any]:
        """Run a command with --json, and read what it prints."""
        text = self.run(*arguments, "--json")
        found: dict[str, Any] = json.loads(text[text.index("{\n") :])
        return found

    def check(self, what: str, said: float, truth: float, limits: Sequence[float]) -> None:
        """Hold a number with its interval against the truth."""
        low, high = limits
        middle, reach = (low + high) / 2, ROOM * (high - low) / 2
        inside = low <= truth <= high
        near = abs(truth - middle) <= reach
        verdict = "right" if inside else "just outside" if near else "WRONG"
        print(f"  {what}: {said:.3f} ({low:.3f} to {high:.3f}), truth {truth:.3f}: {verdict}")
        if not near:
            self.wrong.append(what)

    def expect(self, what: str, holds: bool) -> None:
        """Say whether something is so."""
        print(f"  {what}: {'yes' if holds else 'NO'}")
        if not holds:
            self.wrong.append(what)

    def end(self) -> int:
        """Sum up; the exit code is 1 if anything was wrong."""
        print("All of it is right." if not self.wrong else f"Wrong: {'; '.join(self.wrong)}.")
        return int(bool(self.wrong))
