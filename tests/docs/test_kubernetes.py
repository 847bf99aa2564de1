"""deploy/kubernetes agrees with the code, with compose, with the cluster's schemas, and with itself."""

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # pyright: ignore[reportMissingTypeStubs]
import pytest
import yaml
from pydantic import TypeAdapter

from runtime.settings import BuildId, Settings
from tests.docs.test_deployment import env_file, interpolated, ours
from tests.docs.test_pages import accept
from tests.docs.written import ROOT
from tools.catalog import Catalog

FOLDER = ROOT / "deploy" / "kubernetes"
EXAMPLE = FOLDER / "secrets.example.yaml"
# The oldest with everything that the manifests use, and the newest whose schema is known here.
VERSIONS = ("1.30", kubernetes_validate.latest_version())
COMPONENT = "app.kubernetes.io/component"
BUILD = "app.kubernetes.io/version"
SECRETS = {name for name, field in Settings.model_fields.items() if "SecretStr" in str(field.annotation)}
# The credentials of each remote system, whichever the gateway is; the sandbox is for trying it out.
CREDENTIALS = {
    "payments": {"stripe_api_key", "paypal_client_secret"},
    "orders": {"store_key"},
    "helpdesk": {"helpdesk_key"},
}


def read(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def files(folder: Path) -> Iterator[Path]:
    """The kustomization of a folder and whatever it names."""
    yield folder / "kustomization.yaml"
    for name in read(folder / "kustomization.yaml")[0]["resources"]:
        path = (folder / name).resolve()
        assert path.exists(), f"{folder.name} names {name}"
        yield from files(path) if path.is_dir() else [path]


FILES = {*files(FOLDER), *files(FOLDER / "administration")}
DOCUMENTS = [document for path in sorted(FILES) if path.name != "kustomization.yaml" for document in read(path)]


def of_kind(kind: str) -> dict[str, dict[str, Any]]:
    found = [each for each in DOCUMENTS if each["kind"] == kind]
    named = {each["metadata"]["name"]: each for each in found}
    assert len(named) == len(found), f"two of kind {kind} have one name"
    return named


def pods() -> dict[str, dict[str, Any]]:
    """Each process, with its pod: metadata and spec."""
    made = {**of_kind("Deployment"), **of_kind("Job")}
    return {name: each["spec"]["template"] for name, each in made.items()} | of_kind("Pod")


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod["spec"]["containers"]
    return only


def secret_variables(pod: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The variables of a process that come from a Secret, each with its reference."""
    return {
        each["name"]: each["valueFrom"]["secretKeyRef"]
        for each in container(pod).get("env", [])
        if "secretKeyRef" in each.get("valueFrom", {})
    }


def environment(pod: dict[str, Any]) -> dict[str, str]:
    """What a process finds, with a stand-in for what a Secret holds and for its build."""
    found: dict[str, str] = {}
    for source in container(pod).get("envFrom", []):
        found |= of_kind("ConfigMap")[source["configMapRef"]["name"]]["data"]
    for each in container(pod).get("env", []):
        found[each["name"]] = each.get("value", "stand-in")
    return found


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    """https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors"""
    assert selector.keys() <= {"matchLabels", "matchExpressions"}
    expressions = selector.get("matchExpressions", [])
    assert all(each["operator"] == "In" for each in expressions)
    return selector.get("matchLabels", {}).items() <= labels.items() and all(
        labels.get(each["key"]) in each["values"] for each in expressions
    )


def test_every_file_belongs_to_a_kustomization() -> None:
    assert set(FOLDER.rglob("*.yaml")) == FILES | {EXAMPLE}


@pytest.mark.parametrize("version", VERSIONS)
def test_documents_fit_the_schemas(version: str) -> None:
    # Reading a schema takes the most of it, so the newest one is asked about one document of each kind.
    documents = [*DOCUMENTS, *read(EXAMPLE)]
    for document in documents if version == VERSIONS[0] else {each["kind"]: each for each in documents}.values():
        kubernetes_validate.validate(document, version, strict=True)


def test_a_wrong_document_is_noticed() -> None:
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [], "contaners": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_the_processes_are_those_of_compose() -> None:
    compose = {
        name: service["command"]
        for name, service in ours(interpolated(env_file("demo.env"))).items()
        if "entrypoint" not in service
    }
    here = {name: container(pod)["args"] for name, pod in pods().items() if name != "administration"}
    assert here == compose
    for command in here.values():
        accept(command)
    for name, pod in pods().items():
        assert pod["metadata"]["labels"][COMPONENT] == name


def test_settings_are_known_and_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, pod in pods().items():
        given = environment(pod)
        known = {f"COUNTERSEAL_{field.upper()}" for field in Settings.model_fields}
        assert {each for each in given if not each.startswith("TEMPORAL_")} <= known, name
        with monkeypatch.context() as patch:
            for variable in known:
                patch.delenv(variable, raising=False)
            for variable, value in given.items():
                patch.setenv(variable, value)
            settings = Settings()  # pyright: ignore[reportCallIssue]
        assert not settings.eager_start, name
        if name != "migrate":
            assert settings.master_key_file is not None
            (mount,) = (each for each in container(pod)["volumeMounts"] if each["name"] == "master-key")
            assert str(settings.master_key_file.parent) == mount["mountPath"]
            assert settings.metrics_port == 9464


def test_each_process_holds_its_own_credentials_alone() -> None:
    owner = {"database_url"}
    expected = {
        "api": {"database_url", "stripe_webhook_secret", "oidc_client_secret"},
        "sealer": owner,
        "migrate": owner,
        "administration": owner,
    }
    for queue in ("workflows", "payments", "orders", "messages"):
        manifests = [entry.manifest for entry in Catalog.load().all() if entry.manifest.queue == queue]
        systems = {system for manifest in manifests for system in manifest.systems}
        expected[f"worker-{queue}"] = {"database_url"}.union(*(CREDENTIALS[system] for system in systems))
    held = {
        name: {variable.removeprefix("COUNTERSEAL_").lower() for variable in environment(pod)} & SECRETS
        for name, pod in pods().items()
    }
    assert held == expected


def test_each_process_connects_as_its_own_role() -> None:
    used = {name: secret_variables(pod)["COUNTERSEAL_DATABASE_URL"]["name"] for name, pod in pods().items()}
    roles = {name: "worker" if name.startswith("worker-") else name for name in used}
    roles |= {"migrate": "owner", "administration": "owner"}
    assert used == {name: f"counterseal-database-{role}" for name, role in roles.items()}


def test_who_needs_no_temporal_has_no_key_of_it() -> None:
    without = {name for name, pod in pods().items() if "TEMPORAL_API_KEY" not in environment(pod)}
    assert without == {"sealer", "migrate"}


def test_secrets_are_referred_to_and_named_in_the_example() -> None:
    asked: set[tuple[str, str]] = set()
    for name, pod in pods().items():
        from_secrets = secret_variables(pod)
        for each in container(pod).get("env", []):
            if each["name"].removeprefix("COUNTERSEAL_").lower() in SECRETS:
                assert each["name"] in from_secrets, f"{name}: {each['name']} stands in the manifest"
        asked |= {(each["name"], each["key"]) for each in from_secrets.values()}
        for volume in pod["spec"]["volumes"]:
            for item in volume.get("secret", {}).get("items", []):
                asked.add((volume["secret"]["secretName"], item["key"]))
    example = {
        (each["metadata"]["name"], key): value for each in read(EXAMPLE) for key, value in each["stringData"].items()
    }
    assert asked == set(example)
    assert set(example.values()) == {""}
    assert not of_kind("Secret")
    assert (
        not {f"COUNTERSEAL_{name.upper()}" for name in SECRETS}
        & of_kind("ConfigMap")["counterseal-settings"]["data"].keys()
    )


def test_processes_run_with_few_rights() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    (user,) = re.findall(r"^USER (\d+):\d+$", dockerfile, re.MULTILINE)
    accounts = of_kind("ServiceAccount")
    assert {pod["spec"]["serviceAccountName"] for pod in pods().values()} == set(accounts)
    assert not any(each["automountServiceAccountToken"] for each in accounts.values())
    for name, pod in pods().items():
        spec, one = pod["spec"], container(pod)
        assert spec["serviceAccountName"] == name
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["enableServiceLinks"] is False, name
        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": int(user),
            "runAsGroup": int(user),
            "fsGroup": int(user),
            "seccompProfile": {"type": "RuntimeDefault"},
        }, name
        assert one["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }, name
        for bound in ("requests", "limits"):
            assert {"cpu", "memory"} <= one["resources"][bound].keys(), name
        assert {each["name"] for each in one["volumeMounts"]} == {each["name"] for each in spec["volumes"]}, name
    (namespace,) = of_kind("Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_workers_tell_when_they_are_ready_and_are_given_time_to_end() -> None:
    compose = ours(interpolated(env_file("demo.env")))
    for name, pod in pods().items():
        if not name.startswith("worker-") and name != "sealer":
            continue
        assert f"{pod['spec']['terminationGracePeriodSeconds']}s" == compose[name]["stop_grace_period"] == "75s"
        file = environment(pod)["COUNTERSEAL_READY_FILE"]
        assert container(pod)["readinessProbe"]["exec"]["command"] == ["test", "-f", file]
        assert compose[name]["healthcheck"]["test"] == ["CMD", "test", "-f", file]
        assert "livenessProbe" not in container(pod), "its servers being away is no reason to start it again"


def test_two_apis_are_asked_whether_they_are_ready() -> None:
    api, one = of_kind("Deployment")["api"], container(pods()["api"])
    assert api["spec"]["replicas"] == 2
    assert one["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert one["livenessProbe"]["httpGet"]["path"] == "/healthz"
    ports = {each["name"]: str(each["containerPort"]) for each in one["ports"]}
    given = environment(pods()["api"])
    assert ports == {"http": given["COUNTERSEAL_API_PORT"], "metrics": given["COUNTERSEAL_METRICS_PORT"]}
    for service in of_kind("Service").values():
        for port in service["spec"]["ports"]:
            assert str(port["port"]) == ports[port["targetPort"]]


def test_selectors_find_the_processes_that_they_are_called_after() -> None:
    labels = {name: pod["metadata"]["labels"] for name, pod in pods().items()}
    for deployment in of_kind("Deployment").values():
        name = deployment["metadata"]["name"]
        selectors = [
            deployment["spec"]["selector"],
            of_kind("PodDisruptionBudget")[name]["spec"]["selector"],
            {"matchLabels": of_kind("Service")[name]["spec"]["selector"]},
            *(
                each["labelSelector"]
                for each in deployment["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
            ),
        ]
        for selector in selectors:
            assert {each for each in labels if selects(selector, labels[each])} == {name}
    assert of_kind("PodDisruptionBudget").keys() == of_kind("Deployment").keys()
    assert of_kind("Service").keys() == of_kind("Deployment").keys()


def test_each_process_reaches_what_it_needs_and_no_more() -> None:
    policies = of_kind("NetworkPolicy")
    deny = policies.pop("default-deny")["spec"]
    assert deny == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    reached: dict[str, set[int]] = {}
    reachable: dict[str, set[int]] = {}
    for name, pod in pods().items():
        chosen = [
            each["spec"]
            for each in policies.values()
            if selects(each["spec"]["podSelector"], pod["metadata"]["labels"])
        ]
        out = [rule for each in chosen for rule in each.get("egress", [])]
        into = [rule for each in chosen for rule in each.get("ingress", [])]
        assert all(rule.get("to") for rule in out), "a rule without `to` allows every address"
        assert all(rule.get("from") for rule in into), "a rule without `from` allows every address"
        reached[name] = {port["port"] for rule in out for port in rule["ports"]}
        reachable[name] = {port["port"] for rule in into for port in rule["ports"]}
    both = {53, 5432, 7233}
    assert reached == {
        "api": both,
        "worker-workflows": both,
        "worker-payments": both | {443},
        "worker-orders": both | {443},
        "worker-messages": both | {443},
        "sealer": {53, 5432},
        "migrate": {53, 5432},
        "administration": both,
    }
    of_systems = set[str]().union(*CREDENTIALS.values())
    for name, pod in pods().items():
        holds = {each.removeprefix("COUNTERSEAL_").lower() for each in secret_variables(pod)} & of_systems
        assert (443 in reached[name]) == bool(holds), name
    measured = {name for name in pods() if name not in ("migrate", "administration")}
    assert reachable == {name: {9464} if name in measured else set() for name in pods()} | {"api": {8080, 9464}}


def test_a_build_is_called_the_same_everywhere() -> None:
    builds = [path for path in (FOLDER / "builds").iterdir() if path.is_dir()]
    listed = {name for name in read(FOLDER / "kustomization.yaml")[0]["resources"] if name.startswith("builds/")}
    assert listed == {f"builds/{build.name}" for build in builds}
    for build in builds:
        TypeAdapter(BuildId).validate_python(build.name)
        made = read(build / "kustomization.yaml")[0]
        assert made["nameSuffix"] == "-" + build.name.replace(".", "-")
        assert made["labels"] == [{"pairs": {BUILD: build.name}, "includeSelectors": True}]
        assert made["images"] == [{"name": "counterseal", "newTag": build.name}]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for folder in ("service", "administration", f"builds/{project['project']['version']}"):
        made = read(FOLDER / folder / "kustomization.yaml")[0]
        assert made["images"] == [{"name": "counterseal", "newTag": project["project"]["version"]}]
        assert made["namespace"] == "counterseal"
    versioned = {name for name, pod in pods().items() if "COUNTERSEAL_BUILD_ID" in environment(pod)}
    assert versioned == {name for name in pods() if name.startswith("worker-")}
    for name in versioned:
        (said,) = (each for each in container(pods()[name])["env"] if each["name"] == "COUNTERSEAL_BUILD_ID")
        assert said["valueFrom"] == {"fieldRef": {"fieldPath": f"metadata.labels['{BUILD}']"}}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl, which renders without a cluster")
def test_what_kustomize_makes_of_it_holds_together() -> None:
    asked = ["kubectl", "kustomize", str(FOLDER)]
    said = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60)
    assert said.stderr == "", "kustomize warns"
    rendered: list[dict[str, Any]] = list(yaml.safe_load_all(said.stdout))
    there = {(each["kind"], each["metadata"]["name"]) for each in rendered}
    assert len(there) == len(rendered)
    for document in rendered:
        assert document["metadata"].get("namespace") == (None if document["kind"] == "Namespace" else "counterseal")
    for document in rendered:
        if document["kind"] not in ("Deployment", "Job"):
            continue
        kubernetes_validate.validate(document, VERSIONS[0], strict=True)
        name, template = document["metadata"]["name"], document["spec"]["template"]
        component, labels = template["metadata"]["labels"][COMPONENT], template["metadata"]["labels"]
        assert ("ServiceAccount", template["spec"]["serviceAccountName"]) in there
        for source in container(template).get("envFrom", []):
            assert ("ConfigMap", source["configMapRef"]["name"]) in there
        assert re.fullmatch(r"counterseal:\d+\.\d+\.\d+", container(template)["image"])
        if component.startswith("worker-") or component == "migrate":
            assert name == f"{component}-{labels[BUILD].replace('.', '-')}"
            if document["kind"] == "Deployment":
                assert document["spec"]["selector"]["matchLabels"][BUILD] == labels[BUILD], "builds would share pods"
        else:
            assert name == component
            assert BUILD not in labels
