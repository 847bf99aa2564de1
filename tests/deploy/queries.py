"""The alert rules and the dashboard, and which metrics they ask for."""

import json
import re
from pathlib import Path
from typing import Any

import promql_parser
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "counterseal.rules.yaml"
TRIALS = RULES.with_suffix(".test.yaml")
DASHBOARD = DEPLOY / "grafana" / "dashboards" / "counterseal.json"


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]


def expressions() -> list[str]:
    """Every query, the dashboard's variables filled in."""
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [*(rule["expr"] for rule in rules()), *(each.replace("$__rate_interval", "5m") for each in shown)]


def metrics_of(expression: str) -> set[str]:
    """The metrics that a query selects. Raises ValueError for what is no PromQL."""
    found: set[str] = set()

    def visit(node: Any) -> bool:
        if isinstance(node, promql_parser.VectorSelector) and node.name is not None:
            found.add(node.name)
        return True

    parsed = promql_parser.parse(expression)
    promql_parser.walk(parsed, visit, visit)
    return found


def exported(scraped: str) -> set[str]:
    """The names in Prometheus' text format, as queries say them."""
    return set(re.findall(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{| )", scraped, re.MULTILINE))
