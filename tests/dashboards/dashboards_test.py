"""Dashboards and alerts: what they ask for exists in the sources, and Prometheus understands it."""
import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from dashboards import FILES, ROOT, expressions, load, metrics_of, panels

PROMTOOL = ROOT / ".deps/promtool/usr/bin/promtool"
RULES = ROOT / "dashboards/rules/muster.yaml"
RULES_TEST = ROOT / "dashboards/rules/muster_test.yaml"
STANDARD = {"up"}


def sources():
    for folder in ("operator", "trainer"):
        for file in sorted((ROOT / folder).rglob("*.cpp")):
            yield file.read_text()


def names_in_sources():
    """Every text that could be a metric's name."""
    return set(re.findall(r'"([a-z][a-z0-9]*(?:_[a-z0-9]+)+)"', "\n".join(sources())))


def exists(metric, known):
    histogram = re.sub(r"_(bucket|sum|count)$", "", metric)
    return metric in STANDARD or metric in known or (histogram != metric and histogram in known)


def rule_expressions():
    """The `expr` of each rule: the text between that key and the next."""
    found = re.findall(r"^( +)expr: (?:>-\n)?(.*?)\n(?=\1\w+:)", RULES.read_text(), re.S | re.M)
    return [" ".join(text.split()) for _, text in found]


def promtool(*arguments):
    return subprocess.run([PROMTOOL, *map(str, arguments)], capture_output=True, text=True)


class Expressions(unittest.TestCase):
    def test_the_reading_of_expressions(self):
        self.assertEqual(metrics_of('sum by (job) (rate(a_total{x=~"b_c"}[5m])) / on (pod) d > 0.1 or absent(e)'),
                         {"a_total", "d", "e"})
        known = {"a_seconds", "b_total"}
        self.assertTrue(exists("a_seconds_bucket", known))
        self.assertFalse(exists("b", known))
        self.assertFalse(exists("c_total", known))

    def test_every_metric_of_a_panel_is_in_the_sources(self):
        known = names_in_sources()
        for file in FILES:
            for title, expression in expressions(file):
                self.assertTrue(metrics_of(expression), f"{file.name}: {title}: {expression}")
                for metric in metrics_of(expression):
                    self.assertTrue(exists(metric, known), f"{file.name}: {title}: no {metric} in the sources")

    def test_every_metric_of_a_rule_is_in_the_sources(self):
        known = names_in_sources()
        found = rule_expressions()
        self.assertEqual(len(found), RULES.read_text().count("- alert:"))
        for expression in found:
            self.assertTrue(metrics_of(expression), expression)
            for metric in metrics_of(expression):
                self.assertTrue(exists(metric, known), f"no {metric} in the sources")

    def test_prometheus_understands_every_panel(self):
        panels_of_all = [(f"{file.name}: {title}", expression)
                         for file in FILES for title, expression in expressions(file)]
        rules = [f"  - {{record: 'panel:{i}', expr: {json.dumps(expression)}}}  # {where}"
                 for i, (where, expression) in enumerate(panels_of_all)]
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "panels.yaml")
            file.write_text("\n".join(["groups:", "- name: panels", "  rules:", *rules]))
            checked = promtool("check", "rules", file)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        self.assertIn(f"{len(rules)} rules found", checked.stdout)


class Dashboards(unittest.TestCase):
    def test_there_are_two_with_names_of_their_own(self):
        self.assertEqual([file.name for file in FILES], ["muster-jobs.json", "muster-operator.json"])
        self.assertEqual([load(file)["uid"] for file in FILES], [file.stem for file in FILES])

    def test_each_panel_says_what_it_shows(self):
        for file in FILES:
            for panel in panels(load(file)):
                where = f"{file.name}: {panel.get('title')}"
                self.assertTrue(panel["title"], where)
                self.assertTrue(panel["description"], where)
                self.assertTrue(panel["fieldConfig"]["defaults"]["unit"], where)
                self.assertTrue(panel["targets"], where)
                for target in panel["targets"]:
                    self.assertTrue(target["expr"], where)
                    self.assertTrue(target["legendFormat"], where)

    def test_each_panel_takes_the_chosen_data_source(self):
        for file in FILES:
            dashboard = load(file)
            variables = {variable["name"]: variable for variable in dashboard["templating"]["list"]}
            self.assertEqual(variables["datasource"]["type"], "datasource")
            for panel in panels(dashboard):
                for holder in (panel, *panel["targets"]):
                    chosen = {"type": "prometheus", "uid": "${datasource}"}
                    self.assertEqual(holder["datasource"], chosen, panel["title"])

    def test_each_variable_of_an_expression_is_one_of_the_dashboard(self):
        for file in FILES:
            dashboard = load(file)
            variables = {variable["name"] for variable in dashboard["templating"]["list"]} | {"__rate_interval"}
            for panel in panels(dashboard):
                for target in panel["targets"]:
                    self.assertLessEqual(set(re.findall(r"\$(\w+)", target["expr"])), variables, panel["title"])

    def test_panels_have_their_own_place(self):
        for file in FILES:
            dashboard = load(file)
            ids = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(ids), len(set(ids)))
            taken = set()
            for panel in dashboard["panels"]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                         for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(cells & taken, f"{file.name}: {panel['title']} lies on another")
                taken |= cells


class Rules(unittest.TestCase):
    def test_promtool_accepts_them(self):
        checked = promtool("check", "rules", RULES)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_they_fire_when_they_should(self):
        tested = promtool("test", "rules", RULES_TEST)
        self.assertEqual(tested.returncode, 0, tested.stdout + tested.stderr)

    def test_each_is_tested_and_says_what_to_do(self):
        text, tests = RULES.read_text(), RULES_TEST.read_text()
        for alert in re.split(r"- alert: ", text)[1:]:
            name = alert.split()[0]
            self.assertIn(name, tests)
            for key in ("severity:", "summary:", "description:", "runbook:"):
                self.assertIn(key, alert, name)


if __name__ == "__main__":
    if not PROMTOOL.exists():
        raise SystemExit(f"{PROMTOOL} is missing; scripts/bootstrap --for-tests brings it")
    unittest.main()
