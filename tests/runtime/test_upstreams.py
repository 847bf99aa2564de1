"""The file of MCP servers: what it may say, and what becomes of it."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from runtime.assembly import outside_systems
from runtime.settings import SettingsError, load
from runtime.upstreams import read_upstreams

NEEDED: dict[str, Any] = {"database_url": SecretStr("postgresql://x@y/z"), "store_url": "http://127.0.0.1:1"}
GOOD = """\
check_seconds: 5
upstreams:
  shop: { url: "http://127.0.0.1:9/mcp", credential: false }
  far: { url: "https://far.example/mcp", timeout_seconds: 20 }
  local: { command: [python, server.py], folder: /srv, environment: { COLOUR: red }, credential_variable: KEY }
"""


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ("{}", "has either a url or a command"),
        ('{ url: "https://a.example", command: [a] }', "has either a url or a command"),
        ('{ url: "http://shop.example/mcp" }', "is https, or on this machine"),
        ('{ url: "https://user:secret@shop.example/mcp" }', "no credentials"),
        ('{ url: "https://shop.example/mcp?key=secret" }', "query"),
        ('{ url: "https://shop.example", folder: /srv }', "are of a command"),
        ("{ command: [a] }", "credential_variable: how the program gets its credential"),
        ("{ command: [a], credential: false, credential_variable: KEY }", "credential_variable"),
        ("{ command: [] }", "upstreams.shop.command"),
        ("{ command: a, credential: false }", "must be a list"),
        ('{ url: "https://a.example", token: secret }', "there is no such field"),
    ],
)
def test_what_is_wrong_is_said_without_repeating_it(tmp_path: Path, server: str, problem: str) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text(f"upstreams:\n  shop: {server}\n")
    with pytest.raises(SettingsError, match="COUNTERSEAL_UPSTREAMS") as refused:
        load(**NEEDED, upstreams=file)
    assert problem in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_name_that_means_something_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text('upstreams: { orders: { url: "https://a.example" } }')
    with pytest.raises(ValueError, match="the name orders is taken"):
        read_upstreams(file)
    with pytest.raises(SettingsError, match="COUNTERSEAL_UPSTREAMS"):
        load(**NEEDED, upstreams=tmp_path / "nothing.yaml")


async def test_tools_get_the_upstreams_that_they_name(tmp_path: Path) -> None:
    file = tmp_path / "upstreams.yaml"
    file.write_text(GOOD)
    settings = load(**NEEDED, upstreams=file, private_networks="orders")
    assert settings.own_upstreams().check_seconds == 5
    assert [each.is_private for each in settings.own_upstreams().upstreams.values()] == [True, False, False]
    vault: Any = None
    async with httpx.AsyncClient() as client:
        systems = outside_systems(settings, vault, client, {"shop", "local", "orders"})
        assert sorted(systems.upstreams) == ["local", "shop"]
        with pytest.raises(LookupError):
            systems.upstream("far")
        with pytest.raises(SettingsError, match="names no system payroll, nor does COUNTERSEAL_UPSTREAMS"):
            outside_systems(settings, vault, client, {"payroll"})
        both = load(**NEEDED, upstreams=file, systems='{"far": "https://far.example"}')
        with pytest.raises(SettingsError, match=r"far is a system of COUNTERSEAL_SYSTEMS too"):
            outside_systems(both, vault, client, {"orders"})
