"""The example of FastAPI answers as `simurgh serve` does, and follows the training."""

import concurrent.futures

from served import EXAMPLES, Server, clicks_model, expect, pathlib, served, skip, sys, until

import numpy as np

try:
    import fastapi  # noqa: F401
    import polars  # noqa: F401
    import uvicorn  # noqa: F401
except ImportError as error:
    skip(f"{error.name} is missing; install tests/requirements.txt")

rows = clicks_model()
wanted = served(rows)
older = served(rows, step=10)
expect(np.abs(wanted - older).max() > 1e-3, "the versions differ")
words = [sys.executable, "-m", "uvicorn", "--app-dir", EXAMPLES, "fastapi_server:app", "--host", "127.0.0.1", "--port",
         "{port}"]
with Server(words, {"MODEL": "clicks-model"}) as server:
    server.wait("/version")
    instances = [dict(zip(rows, row)) for row in zip(*rows.values())]

    def predict(first, last):
        status, answer = server.call("/predict", {"instances": instances[first:last]})
        expect(status == 200, f"the server answers: {answer}")
        return np.array(answer["predictions"], np.float32)

    expect(np.abs(predict(0, 100) - wanted).max() < 1e-6, "predictions are those of simurgh serve")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        parts = list(pool.map(lambda i: predict(i, i + 5), range(0, 100, 5)))
    expect(np.abs(np.concatenate(parts) - wanted).max() < 1e-6, "so are those of several clients")
    pathlib.Path("clicks-model/pin").write_text("10")
    until(lambda: server.call("/version")[1] == {"step": 10}, "the pinned version is in use")
    expect(np.abs(predict(0, 100) - older).max() < 1e-6, "predictions are those of the pinned version")
    pathlib.Path("clicks-model/pin").unlink()

    status, answer = server.call("/predict", {"instances": [{**instances[0], "age": "old"}, instances[1]]})
    expect(status == 200 and answer["predictions"][0] is None and answer["predictions"][1] is not None, f"a bad row: {answer}")
    status, answer = server.call("/predict", {"instances": [{"site": "site1", "ad": "ad1"}]})
    expect(status == 400 and "age" in answer["detail"], f"a missing column: {status} {answer}")
    for body, code in (({"instances": []}, 413), ({"instances": [{"site": []}]}, 422), ({}, 422)):
        status, answer = server.call("/predict", body)
        expect(status == code, f"{body}: {status} {answer}")
