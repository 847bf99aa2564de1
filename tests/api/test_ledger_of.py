"""The second wall only stands where the first does not go around it."""

import ast
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def test_whoever_acts_for_a_tenant_uses_its_ledger() -> None:
    """In routes and activities no table is reached but through `Ledger.of`, save where the tenant is not known yet."""
    allowed = {
        # Whose run it is says the tenant.
        ("activities/admitting.py", "admissions"),
        ("activities/previewing.py", "admissions"),
        # Whose effect it is says the tenant.
        ("api/webhooks.py", "calls"),
        # It must see that the id is one of another tenant's calls.
        ("activities/diagnosing.py", "diagnostics"),
    }
    found: set[tuple[str, str]] = set()
    for folder in ("api", "activities"):
        for path in (_ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if (
                    isinstance(node, ast.Attribute)
                    and node.attr in ("calls", "approvals", "admissions", "diagnostics", "system", "database")
                    and isinstance(node.value, ast.Attribute)
                    and node.value.attr in ("ledger", "_ledger")
                ):
                    found.add((path.relative_to(_ROOT).as_posix(), node.attr))
    assert found == allowed
