"""What tests of other servers over simurgh.Model share: a model of clicks, and servers as processes.

The model is that of "Five minutes" in the package's README, with a network of the configuration.
"""

import contextlib
import http.client
import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "services/python"), str(ROOT / "tests/cases")]
LIBRARY = pathlib.Path(os.environ.setdefault("SIMURGH_LIBRARY", str(ROOT / "build/release/lib/libsimurgh.so.1")))
EXAMPLES = ROOT / "services/python/examples"

from case import BIN, expect, free_port, program, skip, until  # noqa: E402, F401

import numpy as np  # noqa: E402

if not LIBRARY.exists():
    skip(f"{LIBRARY} is missing; build simurgh_shared")
PATIENCE = 60  # Seconds.


def clicks_model():
    """Trains clicks-model, with checkpoints at steps 10 and 20. Returns rows to predict, by column."""
    random = np.random.default_rng(3)

    def rows(count):
        return {"site": [f"site{i}" for i in random.integers(0, 20, count)],
                "ad": [f"ad{i}" for i in random.integers(0, 20, count)],
                "age": [float(age) for age in np.round(random.uniform(18, 80, count), 2)]}

    train = rows(2000)
    with open("clicks.train.csv", "w", encoding="ascii") as file:
        file.write("clicked,site,ad,age\n")
        for site, ad, age in zip(*train.values()):
            chance = 0.1 + 0.6 * ((int(site[4:]) + int(ad[2:])) % 3 == 0)
            file.write(f"{int(random.random() < chance)},{site},{ad},{age}\n")
    pathlib.Path("clicks.yaml").write_text(textwrap.dedent("""\
        data:
          train: [clicks.train.csv]
          columns:
            - {name: clicked, kind: label}
            - {name: site, kind: id}
            - {name: ad, kind: id}
            - {name: age, kind: dense}
        model: deepfm
        training: {batch_size: 100}
        checkpoint: {directory: clicks-model, every_steps: 10, keep: 5}
        """))
    program("nn-worker", "--config", "clicks.yaml", "--standalone")
    new = rows(100)
    new["site"][3] = "never-seen"
    return new


def tensors(rows):
    """A request of the protocol v2."""
    kinds = {"site": "BYTES", "ad": "BYTES", "age": "FP64"}
    return {"inputs": [{"name": name, "datatype": kinds[name], "shape": [len(column), 1], "data": column}
                       for name, column in rows.items()]}


class Server:
    """A server in another process, at a free port, which its command line has as {port}."""

    def __init__(self, words, environment=None):
        self.port = free_port()
        self.words = [str(word).replace("{port}", str(self.port)) for word in words]
        self.environment = {**os.environ, "PYTHONPATH": str(ROOT / "services/python"), "PYTHONDONTWRITEBYTECODE": "1",
                            **(environment or {})}

    def __enter__(self):
        self.log = pathlib.Path(f"server-{self.port}.log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=self.environment)
        return self

    def __exit__(self, *_error):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def call(self, path, body=None, binary=b""):
        """Returns (status, answer) of a GET, or of a POST with a body, which binary tensors of v2 may follow."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            if body is None:
                connection.request("GET", path)
            else:
                text = json.dumps(body).encode()
                headers = {"Content-Type": "application/json"}
                if binary:
                    headers["Inference-Header-Content-Length"] = str(len(text))
                connection.request("POST", path, text + binary, headers)
            response = connection.getresponse()
            text = response.read()
            return response.status, json.loads(text) if text else None

    def wait(self, path):
        """Waits until a GET succeeds."""
        def answers():
            if self.process.poll() is not None:
                raise RuntimeError(f"the server has ended; its log:\n{self.log.read_text()}")
            try:
                return self.call(path)[0] == 200
            except OSError:
                return False
        until(answers, f"{path} answers")


def served(rows, step=None):
    """The predictions of `simurgh serve`."""
    settings = [] if step is None else ["--set", f"serving.version={step}"]
    with Server([BIN / "simurgh", "serve", "--model", "clicks-model", "--listen", "127.0.0.1:{port}", *settings]) as server:
        server.wait("/v2/health/ready")
        status, answer = server.call("/v2/models/clicks-model/infer", tensors(rows))
        expect(status == 200, f"simurgh serve answers: {answer}")
        return np.array(answer["outputs"][0]["data"], np.float32)
