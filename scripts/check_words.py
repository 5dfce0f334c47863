"""Find phrases that the house style replaces by a term of the field.

Run by `scripts/test`. Reads pages, result pages, and the code with its tests. The glossary
(docs/reference/glossary.md) and CONTRIBUTING.md say what to write instead.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = (
    *("*.md", "docs/*.md", "docs/*/*.md", "benchmarks/*.md", "benchmarks/results/*.md"),
    *("benchmarks/results/*/*.md", "src/**/*.py", "benchmarks/src/**/*.py", "examples/**/*.py"),
    *("scripts/*", "docs/_ext/*.py", "tests/**/*.py", "benchmarks/tests/**/*.py"),
)
# Where the phrases stand as examples.
EXAMPLES = {Path(__file__), ROOT / "tests" / "test_site.py"}
BANNED = re.compile(
    r"\b(whoever|told|anew|but for|bends?|hindsight|keep their (look|odds|word)|by no test|which is no"
    r"|(?<!there )(is|are) no (?!(longer|more|smaller|conflict|stupid)\b)\w+|worth most a|one by the|saddle point|witness(es)?|goes? along with"
    r"|speaks? against|bears? out|borne out|next to nothing|as good as|wherever|besides|hard to tell|(?<![\"'])worlds?(?![\"'])"
    r"|(?<!by )chances?|rows at random|(by|of|from|that|on) bags held out|finer (bags|groups|tables)|teach(es)?|shuffled bags|refute[sd]?|doubtful"
    r"|t(ell|ells|old|elling) (\w+ ){0,2}apart|tells? (it|us|you|how|what|more|most|nothing)"
    r"|pooled shares?|effects of (a |the )?bags?|sharp (estimate|figure)s?|possible values|blanks"
    r"|column importance|obeys?|(is|are) heard|loud|in truth|holds? the truth|held the truth"
    r"|in the place of|it stays|mixture of learners|promise[sd]|believe[sd]?|speaks? (for|of)"
    r"|(with|and|have|has|no) gaps|instance tables?|these very|within reason|at the least"
    r"|would have been (seen|found)|bags (that )?drift|goes by|guess(es|ed)?|if theirs|than ours"
    r"|(bags|totals|labels|they) are worth|knows? no|(cannot|can|could) tell|trusts|level with|ahead of"
    r"|(counts?|bags?|totals?|labels|data|scores|proportions?) (tells?|knows?)|r[au]n off|such as there"
    r"|intervals? (that )?(hold|held)|at most so (many|much))\b",
    re.IGNORECASE,
)
CODE = re.compile(r"`[^`\n]*`")


def found(text: str) -> list[tuple[int, str]]:
    """Line numbers and phrases, outside of `code`; a phrase may be broken over two lines."""
    plain = re.sub(r"\s", " ", CODE.sub(lambda m: "." * len(m[0]), text))
    return [(text.count("\n", 0, m.start()) + 1, m[0]) for m in BANNED.finditer(plain)]


def main() -> int:
    """Print what is found; return how many files have something."""
    paths = {path for pattern in FILES for path in ROOT.glob(pattern)} - EXAMPLES
    n_files = 0
    for path in sorted(paths):
        hits = found(path.read_text(encoding="utf-8"))
        n_files += bool(hits)
        for line, phrase in hits:
            print(f"{path.relative_to(ROOT).as_posix()}:{line}: {phrase!r}")
    return min(n_files, 1)


if __name__ == "__main__":
    sys.exit(main())
