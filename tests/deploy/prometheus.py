"""The real Prometheus, with config/monitoring."""

import json
import pathlib
import re
import shutil
import urllib.error
import urllib.parse

from example_cluster import get

FOLDER = pathlib.Path("config/monitoring").resolve()


def missing_program():
    """Whether the test is skipped; prints it then."""
    missing = [program for program in ("prometheus", "promtool") if not shutil.which(program)]
    if missing:
        print(f"SKIPPED: {missing[0]} is missing; scripts/bootstrap.sh --tests installs it")
    return bool(missing)


class Prometheus:
    """Scrapes the targets of a cluster."""

    def __init__(self, cluster, interval="1s", rules=f"{FOLDER}/alerts.yml"):
        self.url = f"http://{cluster.address}:9090/api/v1/"
        text = (FOLDER / "prometheus.yml").read_text().replace("15s", interval)
        text = text.replace("[alerts.yml]", f"['{rules}']")
        for job, addresses in cluster.targets.items():
            text, count = re.subn(rf"(job_name: {job}\n.*\n.*targets: )\[.*?\]",
                                  lambda found: found[1] + json.dumps(addresses), text)
            if count != 1:
                raise SystemExit(f"prometheus.yml has {count} jobs {job}")
        config = pathlib.Path(cluster.folder, "prometheus.yml")
        config.write_text(text)
        cluster.start("prometheus", "prometheus", f"--config.file={config}",
                      f"--storage.tsdb.path={cluster.folder}/tsdb",
                      f"--web.listen-address={cluster.address}:9090")

    def get(self, path, **query):
        return json.loads(get(self.url + path + "?" + urllib.parse.urlencode(query)))["data"]

    def values(self, expression):
        """Of all series that are a number. None for an invalid expression."""
        try:
            result = self.get("query", query=expression)["result"]
        except urllib.error.HTTPError:
            return []
        return [one for one in result if one["value"][1] != "NaN"]

    def rules(self):
        """All alerts, also those that do not fire."""
        return [rule for group in self.get("rules")["groups"] for rule in group["rules"]
                if rule["type"] == "alerting"]

    def firing(self):
        """Name and instance of all alerts that fire."""
        return {(one["labels"]["alertname"], one["labels"]["instance"])
                for one in self.get("alerts")["alerts"] if one["state"] == "firing"}
