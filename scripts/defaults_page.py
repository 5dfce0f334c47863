"""Write docs/reference/defaults.md from `unbag.defaults`: ``python scripts/defaults_page.py``."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "unbag" / "defaults.py"
PAGE = ROOT / "docs" / "reference" / "defaults.md"


def entries() -> list[tuple[str, str, str, str, str]]:
    """Section, name, value, reason and study of each number."""
    text = SOURCE.read_text(encoding="utf-8")
    lines, found = text.splitlines(), []
    statements = ast.parse(text).body[1:]
    for assigned, described in zip(statements[::2], statements[1::2], strict=True):
        assert isinstance(assigned, ast.Assign)
        assert isinstance(described, ast.Expr)
        above = [line for line in lines[: assigned.lineno] if line.startswith("# --- ")]
        reason, _, study = str(ast.literal_eval(described.value)).partition("|")
        name = ast.unparse(assigned.targets[0])
        value = ast.get_source_segment(text, assigned.value)
        found.append((above[-1].strip("# -"), name, str(value), reason.strip(), study.strip()))
    return found


def page() -> str:
    """The page in Markdown."""
    lines = [
        "# Defaults",
        "",
        "Numbers that change results and are not parameters. They are in one file,",
        "[`unbag.defaults`](../../src/unbag/defaults.py), each with its reason and, where there is one, its study.",
        "",
        "| part | name | value | reason | study |",
        "| --- | --- | --- | --- | --- |",
    ]
    for part, name, value, reason, study in entries():
        lines.append(f"| {part} | `{name}` | {value} | {reason} | {_link(study)} |")
    return "\n".join(lines) + "\n"


def _link(study: str) -> str:
    if not study or (ROOT / "benchmarks" / "results" / f"{study}.md").exists():
        return f"[{study}](../../benchmarks/results/{study}.md)" if study else ""
    return f"[{study}, closed](../../benchmarks/HISTORY.md)"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
