"""A team's own remote systems: named by a setting, reached with the vault's credential, and nothing else."""

from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateways.store import StoreOrderSystem
from runtime.assembly import outside_systems
from runtime.settings import Settings, SettingsError, load
from runtime.systems import read_systems

NEEDED: dict[str, Any] = {"database_url": SecretStr("postgresql://x@y/z"), "store_url": "http://127.0.0.1:1"}
BANK = '{"bank": "http://127.0.0.1:9090"}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("bank", "must be a JSON object of names"),
        ('["bank"]', "must be a JSON object of names"),
        ('{"bank": 1}', "each with a base URL"),
        ('{"bank": "https://a.example", "bank": "https://b.example"}', "must be a JSON object of names"),
        ('{"Bank": "https://bank.example"}', "each with a base URL"),
        ('{"orders": "https://bank.example"}', "the name orders is taken"),
        ('{"stripe": "https://bank.example"}', "the name stripe is taken"),
        ('{"witnesses": "https://bank.example"}', "the name witnesses is taken"),
        ('{"bank": "bank.example"}', "bank: a base URL must be"),
        ('{"bank": "https://user:password@bank.example"}', "bank: a base URL must have no credentials"),
    ],
)
def test_a_setting_that_names_no_systems_is_refused_without_repeating_it(text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match="COUNTERSEAL_SYSTEMS") as refused:
        load(**NEEDED, systems=text)
    assert problem in str(refused.value)
    assert "bank.example" not in str(refused.value)


def test_only_a_system_that_there_is_can_be_on_a_private_network() -> None:
    assert load(**NEEDED, systems=BANK, private_networks="bank,orders").private_systems() == ["bank", "orders"]
    with pytest.raises(SettingsError, match="PRIVATE_NETWORKS must be some of payments, orders, helpdesk, identity"):
        load(**NEEDED, private_networks="bank")


async def test_only_systems_that_are_named_are_told_of_traces() -> None:
    settings = load(**NEEDED, systems=BANK, private_networks="bank,orders", trace_systems="bank")
    vault: Any = None
    async with httpx.AsyncClient() as client:
        systems = outside_systems(settings, vault, client, {"bank", "orders"})
    assert systems.remote("bank")._propagate_trace
    assert isinstance(systems.orders, StoreOrderSystem)
    assert not systems.orders._remote._propagate_trace
    with pytest.raises(SettingsError, match="TRACE_SYSTEMS must be some of payments, orders, helpdesk, separated"):
        load(**NEEDED, trace_systems="identity")


async def test_tools_get_the_systems_that_they_name(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Settings = load(**NEEDED, systems=BANK, private_networks="bank,orders")
    vault: Any = None
    async with httpx.AsyncClient() as client:
        systems = outside_systems(settings, vault, client, {"bank", "orders"})
        assert systems.remote("bank").system == "bank"
        with pytest.raises(LookupError):
            systems.remote("payroll")
        with pytest.raises(SettingsError, match="COUNTERSEAL_SYSTEMS names no system payroll"):
            outside_systems(settings, vault, client, {"payroll"})
        public = load(**NEEDED, systems=BANK)
        with pytest.raises(SettingsError, match="COUNTERSEAL_PRIVATE_NETWORKS"):
            outside_systems(public, vault, client, {"bank"})


def test_without_the_setting_there_are_none() -> None:
    assert read_systems("{}") == {}
