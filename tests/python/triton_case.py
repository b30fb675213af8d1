"""The example of Triton's Python back end answers as `simurgh serve` does, and follows the training."""

import concurrent.futures
import math
import re
import shutil
import struct
import subprocess

from served import EXAMPLES, ROOT, Server, clicks_model, expect, os, pathlib, served, skip, tensors, until

import numpy as np

TRITON = ROOT / "build/peers/triton"
found = list(TRITON.glob("lib/python3*/site-packages/pytriton/tritonserver"))
if not found:
    skip(f"{TRITON} is missing, 600 MB; run bench/peers/install_triton.sh")
package = found[0]
if subprocess.run([TRITON / "bin/python", "-c", "import polars"], capture_output=True).returncode != 0:
    skip("Triton's Python has no polars; run bench/peers/install_triton.sh")

rows = clicks_model()
wanted = served(rows)
older = served(rows, step=10)
# Triton's stub is that of the Python that has its packages.
shutil.copytree(package / "backends", "backends")
python = re.search(r"python(3\.\d+)/", str(package))[1]
shutil.copy(package / f"python_backend_stubs/{python}/triton_python_backend_stub", "backends/python")
shutil.copytree(EXAMPLES / "triton", "repository")
# The stub does not read PYTHONPATH.
shutil.copytree(ROOT / "services/python/simurgh", "repository/clicks/1/simurgh")
config = pathlib.Path("repository/clicks/config.pbtxt")
config.write_text(config.read_text().replace("/models/clicks-model", os.path.abspath("clicks-model")))
words = [package / "bin/tritonserver", "--model-repository", os.path.abspath("repository"), "--backend-directory",
         os.path.abspath("backends"), "--http-address", "127.0.0.1", "--http-port", "{port}", "--allow-grpc", "false",
         "--allow-metrics", "false"]
environment = {"LD_LIBRARY_PATH": str(package.parents[1] / "nvidia_pytriton.libs"),
               "PATH": f"{TRITON / 'bin'}:{os.environ['PATH']}"}
with Server(words, environment) as server:
    server.wait("/v2/models/clicks/ready")

    def predict(first, last):
        status, answer = server.call("/v2/models/clicks/infer",
                                     tensors({name: column[first:last] for name, column in rows.items()}))
        expect(status == 200, f"Triton answers: {answer}")
        return np.array(answer["outputs"][0]["data"], np.float32)

    expect(np.abs(predict(0, 100) - wanted).max() < 1e-6, "predictions are those of simurgh serve")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda i: predict(i, i + 5), range(0, 100, 5)))
    expect(np.abs(np.concatenate(parts) - wanted).max() < 1e-6, "so are those of several clients")
    pathlib.Path("clicks-model/pin").write_text("10")
    until(lambda: np.abs(predict(0, 100) - older).max() < 1e-6, "predictions are those of the pinned version")
    endless = tensors({"site": ["site1"], "ad": ["ad1"], "age": [0.0]})
    del endless["inputs"][2]["data"]
    endless["inputs"][2]["parameters"] = {"binary_data_size": 8}
    status, answer = server.call("/v2/models/clicks/infer", endless, struct.pack("<d", math.inf))
    expect(status != 200 and "row 0" in answer["error"], f"a row that cannot be parsed: {status} {answer}")
    status, answer = server.call("/v2/models/clicks/infer", tensors({"site": ["site1"], "ad": ["ad1"]}))
    expect(status == 400 and "age" in answer["error"], f"a missing column: {status} {answer}")
    expect(np.abs(predict(0, 5) - older[:5]).max() < 1e-6, "the server goes on")
