"""`python -m tests.canary`: play every stage, and write the matrix that came out into docs/security.md."""

import subprocess
import sys

from tests.canary import matrix


def main() -> int:
    """The suite's exit code. The page is written when nothing came out; otherwise the printed matrix says what did."""
    matrix.ARTIFACT.unlink(missing_ok=True)
    suite = [sys.executable, "-m", "pytest", "-q", "tests/canary/test_canary.py"]
    code = subprocess.run(suite, cwd=matrix.ROOT, check=False).returncode
    if code == 0:
        measured = matrix.ARTIFACT.read_text(encoding="utf-8")
        page = matrix.PAGE.read_text(encoding="utf-8")
        matrix.PAGE.write_text(matrix.with_section(page, measured), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
