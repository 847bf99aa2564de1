"""docker-compose.yaml, the Dockerfile and deploy/ agree with the code and with each other."""

import json
import re
import subprocess
import tomllib
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from runtime.settings import Settings
from runtime.stack.postgres import Postgres, find_binaries
from runtime.stack.temporal import RETENTION, SEARCH_ATTRIBUTES
from sandbox.__main__ import main as run_sandbox
from tests.docs.test_pages import accept
from tests.docs.written import ROOT
from tests.roles import NAMES, make_roles, url_as

TEXT = (ROOT / "docker-compose.yaml").read_text(encoding="utf-8")
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


class MissingVariableError(Exception):
    """What docker compose says and stops with."""


def interpolated(values: Mapping[str, str]) -> dict[str, Any]:
    """The file as docker compose reads it with these variables."""

    def value(match: re.Match[str]) -> str:
        name, operator, rest = match.groups()
        if values.get(name):
            return values[name]
        if operator == "?":
            raise MissingVariableError(f"{name}: {rest}")
        return rest or ""

    return yaml.safe_load(_VARIABLE.sub(value, TEXT))


def env_file(name: str) -> dict[str, str]:
    lines = (ROOT / "deploy" / name).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture
def compose() -> dict[str, Any]:
    return interpolated(env_file("demo.env"))


def ours(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: each for name, each in compose["services"].items() if each["image"].startswith("counterseal:")}


def environment(service: dict[str, Any]) -> dict[str, str | None]:
    return service.get("environment", {})


def test_what_services_need_is_declared(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for name, service in services.items():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in services, f"{name} needs {needed}"
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[needed], f"{name} waits for the health of {needed}"
        assert set(service.get("networks", [])) <= set(compose["networks"]), name
        assert set(service.get("secrets", [])) <= set(compose["secrets"]), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source in compose["volumes"] or (ROOT / source).exists(), f"{name}: {volume}"


def test_images_are_pinned(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert re.search(r":v?\d+\.\d+", service["image"]), f"{name}: {service['image']}"


def test_commands_are_accepted(compose: dict[str, Any]) -> None:
    asked: set[str] = set()
    for service in ours(compose).values():
        if "entrypoint" not in service:
            accept(service["command"])
            asked.add(" ".join(service["command"]))
    queues = {f"worker --queue {name}" for name in ("workflows", "payments", "orders", "messages", "sealer")}
    assert asked == queues | {"api", "migrate"}


def test_the_sandbox_takes_its_options(compose: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    service = compose["services"]["sandbox"]
    assert service["entrypoint"] == ["python", "-m", "sandbox"]
    with pytest.raises(SystemExit) as stopped:
        run_sandbox([*service["command"], "--help"])
    assert stopped.value.code == 0
    assert set(environment(service)) == {"SANDBOX_GATEWAY_KEY", "SANDBOX_STORE_KEY", "SANDBOX_HELPDESK_KEY"}
    assert "SANDBOX_STORE_KEY" in capsys.readouterr().out


def test_settings_are_complete_and_valid(compose: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, service in ours(compose).items():
        given = {key: value for key, value in environment(service).items() if key.startswith("COUNTERSEAL_")}
        unknown = {key.removeprefix("COUNTERSEAL_").lower() for key in given} - set(Settings.model_fields)
        assert not unknown, name
        if not given:
            continue
        with monkeypatch.context() as patch:
            for field in Settings.model_fields:
                patch.delenv(f"COUNTERSEAL_{field.upper()}", raising=False)
            for key, value in given.items():
                value = env_file("demo.env").get(key) if value is None else value
                if value is not None:
                    patch.setenv(key, str(value))
            settings = Settings()  # pyright: ignore[reportCallIssue]
        if name.startswith("worker"):
            assert settings.payment_gateway == "sandbox"
            assert settings.sandbox_gateway_key is not None
            assert settings.store_key is not None
            assert settings.helpdesk_key is not None
        else:
            assert settings.sandbox_gateway_key is None, f"{name} holds a credential that it does not need"
            assert settings.store_key is None, f"{name} holds a credential that it does not need"
            assert settings.helpdesk_key is None, f"{name} holds a credential that it does not need"
            assert not settings.eager_start


def test_the_service_is_not_the_owner_who_migrates(compose: dict[str, Any]) -> None:
    users = {
        name: urlsplit(str(url)).username
        for name, service in ours(compose).items()
        if (url := environment(service).get("COUNTERSEAL_DATABASE_URL"))
    }
    assert users.pop("migrate") == compose["services"]["postgres"]["environment"]["POSTGRES_USER"]
    kinds = {name: user for name, user in users.items() if not name.startswith("worker-")}
    assert kinds == {"api": "api", "sealer": "sealer"}
    assert {user for name, user in users.items() if name not in kinds} == {"worker"}


def test_the_roles_are_made_once_and_get_their_passwords(postgres_server: Postgres) -> None:
    for _ in range(2):
        make_roles(postgres_server)
    for name in NAMES:
        asked = [find_binaries() / "psql", url_as(name, postgres_server.superuser_url()), "-Atc", "SELECT current_user"]
        said = subprocess.run(asked, check=True, capture_output=True, text=True)
        assert said.stdout == f"{name}\n"


def test_nothing_starts_without_passwords() -> None:
    required = {name for name, operator, _ in _VARIABLE.findall(TEXT) if operator == "?"}
    assert {
        "POSTGRES_PASSWORD",
        *(f"POSTGRES_{name.upper()}_PASSWORD" for name in NAMES),
        "TEMPORAL_POSTGRES_PASSWORD",
        "COUNTERSEAL_MASTER_KEY_FILE",
    } <= required
    assert required <= set(env_file("example.env"))
    assert all(value == "" for value in env_file("example.env").values()), "the example holds no values"
    for name in required:
        with pytest.raises(MissingVariableError, match=rf"^{name}: set it.*deploy/example.env"):
            interpolated(env_file("demo.env") | {name: ""})


def test_no_secret_stands_in_the_file() -> None:
    for line in TEXT.splitlines():
        key, _, value = line.strip().partition(": ")
        if re.search(r"PASSWORD|_PWD|_KEY$", key) and value:
            assert value.startswith("${"), line


def test_ours_run_with_few_rights(compose: dict[str, Any]) -> None:
    for name, service in ours(compose).items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
    for name, service in compose["services"].items():
        for published in service.get("ports", []):
            assert published.startswith("127.0.0.1:"), f"{name}: {published}"


def test_temporal_is_set_up_as_the_embedded_one() -> None:
    script = (ROOT / "deploy" / "temporal" / "setup-namespace.sh").read_text(encoding="utf-8")
    (names,) = re.findall(r"^for name in (.+); do$", script, re.MULTILINE)
    assert tuple(names.split()) == SEARCH_ATTRIBUTES
    assert f"\nretention={RETENTION.days}d\n" in script
    yaml.safe_load((ROOT / "deploy" / "temporal" / "dynamicconfig.yaml").read_text(encoding="utf-8"))


def test_the_image_is_built_from_what_is_locked() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lock = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))
    versions = {package["name"]: package.get("version") for package in lock["package"]}
    assert f"uv=={versions['uv']}\n" in dockerfile
    for left_out in re.findall(r"--no-install-package (\S+)", dockerfile):
        assert left_out in versions
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"image: counterseal:{project['project']['version']}\n" in TEXT
    allowed = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {f"!{name}" for name in packages} <= set(allowed)
    for member in project["tool"]["uv"]["workspace"]["members"]:
        assert f"COPY {member}/pyproject.toml {member}/\n" in dockerfile
        assert f"!{member}/pyproject.toml" in allowed


def test_dockerfile_says_what_to_run() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (entrypoint,) = re.findall(r"^ENTRYPOINT (.+)$", dockerfile, re.MULTILINE)
    assert json.loads(entrypoint) == ["counterseal"]
    (user,) = re.findall(r"^USER (\d+):\d+$", dockerfile, re.MULTILINE)
    assert int(user) > 0


def test_nothing_may_take_all_there_is(compose: dict[str, Any]) -> None:
    jobs = {"roles", "migrate", "temporal-database", "temporal-namespace"}
    for name, service in compose["services"].items():
        if name not in jobs:
            limits = service["deploy"]["resources"]["limits"]
            assert {"cpus", "memory"} <= limits.keys(), name


def test_what_prometheus_reads_is_served(compose: dict[str, Any]) -> None:
    read = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yaml").read_text())
    (targets,) = (each["targets"] for job in read["scrape_configs"] for each in job["static_configs"])
    served = {
        f"{name}:{environment(service)['COUNTERSEAL_METRICS_PORT']}"
        for name, service in ours(compose).items()
        if name not in ("migrate", "sandbox")
    }
    assert set(targets) == served
    for name in served:
        assert "telemetry" in compose["services"][name.partition(":")[0]]["networks"]


def test_the_collector_hands_on_what_it_takes() -> None:
    config = yaml.safe_load((ROOT / "deploy" / "collector" / "collector.yaml").read_text())
    for pipeline in config["service"]["pipelines"].values():
        for kind in ("receivers", "processors", "exporters"):
            assert set(pipeline.get(kind, [])) <= set(config[kind])
