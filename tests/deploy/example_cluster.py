"""A cluster of config/ with a loader and the online server, on an address of its own."""

import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

BIN = os.environ.get("SIMURGH_BIN_DIR", "build/release/bin")
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Processes:
    """Programs in a temporary folder, on an address of their own, until the end of the `with` block."""

    def __init__(self):
        # Tests of several work trees may run at once.
        self.address = f"127.83.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        self.processes = []

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="simurgh-")
        self.folder = self.temporary.name
        return self

    def start(self, name, *command):
        """Its output is at the end of NAME.log."""
        with open(f"{self.folder}/{name}.log", "a") as log:
            self.processes.append(subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log))
        return self.processes[-1]

    def __exit__(self, kind, *_):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if kind is not None:
            for log in pathlib.Path(self.folder).glob("*.log"):
                print(f"--- {log.name}", "".join(log.read_text().splitlines(True)[-20:]), sep="\n")
        self.temporary.cleanup()


class ExampleCluster(Processes):
    """Trains until the end of the `with` block."""

    def __init__(self, *settings, config="adult.yaml"):
        super().__init__()
        self.config = config
        # Of the metrics, by the job's name in prometheus.yml.
        self.targets = {
            job: [f"{self.address}:{port}" for port in ports] for job, ports in {
                "embedding-ps": [7501, 7502], "embedding-worker": [7511], "nn-worker": [7521],
                "loader": [7531], "serve": [7541]}.items()}
        self.settings = [
            f"loaders.instances=[{{metrics: '{self.targets['loader'][0]}'}}]",
            f"nn_worker.instances.0.address={self.address}:7421",
            "data.validation=[data/adult/adult.test.csv.zst]",
            "training.epochs=100000", "training.evaluate_every_steps=500", "training.staleness=4",
            "embedding_ps.memory_budget=1000000000", "checkpoint.every=2s", *settings]

    def __enter__(self):
        super().__enter__()
        config = pathlib.Path("config", self.config).read_text().replace("127.0.0.1", self.address)
        pathlib.Path(self.folder, self.config).write_text(config)
        pathlib.Path(self.folder, "data").symlink_to(pathlib.Path("config/data").resolve())
        self.start("train", f"{BIN}/simurgh", "train", f"{self.folder}/{self.config}", "--set",
                   f"checkpoint.directory={self.folder}/model",
                   "--set", f"embedding_ps.cold_directory={self.folder}",
                   *[word for one in self.settings for word in ("--set", one)])
        self.start("serve", f"{BIN}/simurgh", "serve", "--model", f"{self.folder}/model", "--listen",
                   f"{self.address}:8000", "--set", f"serving.metrics={self.targets['serve'][0]}")
        return self

    def predict(self):
        """Sends a request, with any result. Returns its status code, 0 without a connection."""
        request = urllib.request.Request(
            f"http://{self.address}:8000/v1/models/model:predict",
            data=json.dumps({"instances": [{"age": 39, "workclass": "unseen"}]}).encode())
        try:
            return OPENER.open(request, timeout=10).status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0


def get(url):
    with OPENER.open(url, timeout=10) as response:
        return response.read().decode()


def await_that(what, condition, seconds=120):
    """Returns the first result of `condition` that is true."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            result, problem = condition(), ""
        except OSError as error:
            result, problem = None, f": {error}"
        if result:
            return result
        if time.monotonic() > deadline:
            raise SystemExit(f"no {what} within {seconds} s{problem}")
        time.sleep(0.2)
