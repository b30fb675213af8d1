"""simurgh.Model with rows in files, of lower precision and of row-server processes predicts as with rows in memory."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

from hosted import ROOT, example, expect, program, raises, simurgh, skip, until

import numpy as np

try:
    import polars
except ImportError:
    skip("polars is missing")

ADULT = ("age workclass fnlwgt education education_num marital_status occupation relationship race gender capital_gain "
         "capital_loss hours_per_week native_country income").split()
BIN = os.environ.get("SIMURGH_BIN_DIR", str(ROOT / "build/release/bin"))


# Processes row-server on sockets, which follow the model.
class RowServers:
    def __init__(self, folder, count, *settings):
        self.addresses = ",".join(f"unix://{os.getcwd()}/rows{i}" for i in range(count))
        settings = [word for one in (f"serving.servers={self.addresses}", "serving.poll=20ms", *settings)
                    for word in ("--set", one)]
        self.logs = [f"rows{i}.log" for i in range(count)]
        self.processes = [
            subprocess.Popen([f"{BIN}/row-server", "--model", folder, "--index", str(i), *settings], stderr=open(log, "w"))
            for i, log in enumerate(self.logs)
        ]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(60)


def train(name, *settings):
    words = [word for one in ("checkpoint.directory=model", "training.max_steps=100", *settings)
             for word in ("--set", one)]
    program("nn-worker", "--config", example(name, model=True), "--standalone", *words)


def far(found, wanted):
    return np.abs(found - wanted).max()


train("adult", "checkpoint.every_steps=50", "checkpoint.keep=10")
rows = polars.read_csv(ROOT / "config/data/adult/adult.test.csv.zst", has_header=False, new_columns=ADULT).head(2000)
memory = simurgh.Model("model")
wanted = memory.predict(rows)
features = memory.features(rows).joined
program("simurgh", "export", "embeddings", "--model", "model", "--output", "{table}.npz")
table = np.load("workclass.npz")
ids = table["ids"] if "ids" in table else table["id"]

mapped = simurgh.Model("model", rows="mapped")
expect((mapped.predict(rows) == wanted).all(), "mapped rows predict the same")
expect((mapped.rows("workclass", ids)[0] == table["weights"]).all(), "mapped rows are those of the export")
for precision in ("bf16", "int8"):
    model = simurgh.Model("model", row_precision=precision)
    distance = far(model.predict(rows), wanted)
    expect(0 < distance < 0.01, f"{precision}: predictions differ by {distance}")
    distance = far(model.features(rows).joined, features)
    expect(0 < distance < 0.01 * np.abs(features).max(), f"{precision}: features differ by {distance}")
    weights, found = model.rows("workclass", ids)
    expect(found.all() and far(weights, table["weights"]) < 0.01 * np.abs(table["weights"]).max(), f"{precision}: rows")

raises(simurgh.InvalidError, lambda: simurgh.Model("model", rows="disk"), "rows: 'disk' is neither", "row-servers")
raises(simurgh.InvalidError, lambda: simurgh.Model("model", row_precision="int4"), "row_precision", "f32, bf16, int8")
raises(simurgh.InvalidError, lambda: simurgh.Model("model", rows="mapped", row_precision="int8"), "row_precision", "mapped")
raises(simurgh.InvalidError, lambda: simurgh.Model("model", rows="host:port"), "servers", "port")
raises(simurgh.Error, lambda: simurgh.Model("model", rows=f"unix://{os.getcwd()}/none",
                                            overrides=["serving.request_timeout=3s"]), "none", "serving.servers")

with RowServers("model", 2) as servers:
    # A step that servers have passed over. They keep two versions.
    first = simurgh.Model("model", rows=servers.addresses, version=50, overrides=["serving.hot_row_bytes=0"])
    expect(first.step == 50 and far(first.predict(rows), simurgh.Model("model", version=50).predict(rows)) < 1e-6,
           "an older step by servers")
    # Without a server a call fails with the address.
    servers.processes[0].kill()
    raises(simurgh.Error, lambda: first.predict(rows), "rows0")
    first.close()

with RowServers("model", 2) as servers:
    with simurgh.Model("model", rows=servers.addresses, follow=True) as remote:
        expect(far(remote.predict(rows), wanted) < 1e-6, "rows of servers predict the same")
        expect((remote.rows("workclass", ids)[0] == table["weights"]).all(), "rows of servers are those of the export")
        expect(not remote.rows("workclass", np.array([12345], np.uint64))[1].any(), "an id without a row")
        with simurgh.Model("model", rows=servers.addresses, row_precision="int8") as small:
            expect(0 < far(small.predict(rows), wanted) < 0.01, "rows that are sent as int8")

        # Threads see one version each while a training goes on.
        answers, ends = set(), threading.Event()

        def ask():
            while not ends.is_set():
                found = remote.features(rows.head(50))
                answers.add((found.step, found.joined.tobytes()))

        threads = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
        for thread in threads:
            thread.start()
        train("adult", "training.max_steps=200", "checkpoint.every_steps=100", "checkpoint.keep=10")
        until(lambda: remote.step == 200, "the model follows by servers")
        until(lambda: any(step == 200 for step, _ in list(answers)), "answers of the newest version")
        ends.set()
        for thread in threads:
            thread.join()
        for step, embeddings in answers:
            own = simurgh.Model("model", version=step).features(rows.head(50)).joined
            expect(embeddings == own.tobytes(), f"a torn answer of step {step}")
        expect({100, 200} <= {step for step, _ in answers}, "answers of the first and the last version")

with RowServers("model", 1, "serving.rows=mapped"):
    model = simurgh.Model("model", rows=f"unix://{os.getcwd()}/rows0", version="latest")
    expect(far(model.predict(rows), simurgh.Model("model", version="latest").predict(rows)) < 1e-6, "mapped rows of a server")

# A flipped bit in mapped rows ends predictions; the files of a model in use may be gone.
shutil.copytree("model", "damaged")
latest = max(pathlib.Path("damaged").glob("step-*/rows/*/*.safetensors"), key=lambda path: path.stat().st_size)
step = latest.parts[1][5:]
content = bytearray(latest.read_bytes())
header = int.from_bytes(content[:8], "little")
begin, end = json.loads(content[8:8 + header])["weights"]["data_offsets"]
content[8 + header + (begin + end) // 2] ^= 1
latest.write_bytes(content)
try:
    model = simurgh.Model("damaged", version=step, rows="mapped")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        model.predict(rows.head(10))
    expect(False, "damage in mapped rows is found")
except simurgh.Error as error:
    expect("checksum" in str(error), f"the error names the damage: {error}")
shutil.copytree("model", "gone")
model = simurgh.Model("gone", rows="mapped", version="latest")
shutil.rmtree("gone")
expect((model.predict(rows) == simurgh.Model("model", version="latest").predict(rows)).all(), "rows of removed files")
