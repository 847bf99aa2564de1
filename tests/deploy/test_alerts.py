"""Alert rules and dashboard are what Prometheus and Grafana take; `promtool` tries the rules out where there is one."""

import os
import re
import shutil
import subprocess

import pytest
import yaml

from tests.deploy.queries import DEPLOY, ROOT, RULES, TRIALS, expressions, metrics_of, panels, rules

PROMTOOL = shutil.which("promtool", path=os.pathsep.join([str(ROOT / ".peers" / "bin"), os.environ["PATH"]]))
RUNBOOK = re.compile(r"docs/runbooks/[a-z-]+\.md")


def test_queries_are_promql() -> None:
    for each in expressions():
        assert metrics_of(each), each


def test_the_reader_of_queries_finds_every_metric() -> None:
    query = 'sum by (a) (rate(x_total{b="c"}[5m])) / max(y) > 0.2 or vector(0)'
    assert metrics_of(query) == {"x_total", "y"}
    with pytest.raises(ValueError, match=r".+"):
        metrics_of("sum by (")


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) >= 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"]["summary"], rule["alert"]
        assert RUNBOOK.fullmatch(page := rule["annotations"]["runbook_url"]), rule["alert"]
        assert (ROOT / page).is_file(), page


def test_every_alert_is_tried_out() -> None:
    tried = {
        trial["alertname"]
        for test in yaml.safe_load(TRIALS.read_text())["tests"]
        for trial in test.get("alert_rule_test", [])
        if trial.get("exp_alerts")
    }
    assert tried == {rule["alert"] for rule in rules()}


def test_nothing_is_summed_over_processes_that_tell_the_same() -> None:
    """A gauge of the ledger is told by each of them."""
    told = re.compile(r"sum(?: by \([a-z_, ]*\))? \(?counterseal_(?!.*_total)[a-z_]+")
    assert [each for each in expressions() if told.search(each)] == []


@pytest.mark.skipif(PROMTOOL is None, reason="needs promtool: `make peers` has it where there is apt")
@pytest.mark.parametrize("command", [["check", "rules", RULES.name], ["test", "rules", TRIALS.name]])
def test_prometheus_agrees(command: list[str]) -> None:
    assert PROMTOOL is not None
    ran = subprocess.run([PROMTOOL, *command], cwd=RULES.parent, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_panels_have_a_place_and_a_source() -> None:
    placed = [tuple(panel["gridPos"].values()) for panel in panels()]
    assert len(set(placed)) == len(placed) > 15
    assert all(panel["datasource"]["uid"] == "${source}" for panel in panels())
    assert len({panel["title"] for panel in panels()}) == len(panels())


def test_provisioning_and_scraping_name_what_is_there() -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yaml").read_text())
    assert [(DEPLOY / "prometheus" / name).exists() for name in config["rule_files"]] == [True]
    compose = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    for target in config["scrape_configs"][0]["static_configs"][0]["targets"]:
        name, _, port = target.partition(":")
        assert compose[name]["environment"]["COUNTERSEAL_METRICS_PORT"] == port
