"""Reads dashboards/*.json: their panels, and the expressions as Grafana would send them."""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "dashboards").glob("*.json"))


def load(file):
    return json.loads(file.read_text())


def panels(dashboard):
    """All panels that show data, those inside of collapsed rows too."""
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            yield from panel.get("panels", [])
        else:
            yield panel


def as_sent(expression, rate_interval="1m", **variables):
    """The expression with its variables filled in; `All` for those that are not given."""
    expression = expression.replace("$__rate_interval", rate_interval)
    return re.sub(r"\$\{?(\w+)\}?", lambda found: variables.get(found[1], ".*"), expression)


def expressions(file, **variables):
    """(panel's title, expression as sent) for each query of a dashboard."""
    for panel in panels(load(file)):
        for target in panel["targets"]:
            yield panel["title"], as_sent(target["expr"], **variables)


def metrics_of(expression):
    """Names of the metrics in a PromQL expression."""
    text = re.sub(r'"(\\.|[^"\\])*"|\'[^\']*\'', "", expression)
    text = re.sub(r"\{[^}]*\}|\[[^\]]*\]", " ", text)
    text = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", " ", text)
    names = re.findall(r"(?<![\w.])([a-zA-Z_:][\w:]*)(?!\w|\s*\()", text)
    return {name for name in names if name not in {"and", "or", "unless", "bool", "offset", "inf", "nan"}}
