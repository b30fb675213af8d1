#!/usr/bin/env python3
"""Asks a running `simurgh serve` as real clients do: tritonclient[http] in JSON and binary, sync and
asyncio, over TLS and with a token. All give the same predictions.

usage: serve_clients.py URL MODEL ROWS.csv [--ca FILE] [--token FILE]

ROWS.csv is what `simurgh predict` writes: the columns that the model reads, then its predictions, to
which the answers are compared. Prints the number of answers and rows.
"""

import argparse
import asyncio
import csv
import json
import ssl
import sys
import urllib.request

import numpy as np
import tritonclient.http as sync
import tritonclient.http.aio as aio

TOLERANCE = 1e-6


def inputs_of(module, metadata, rows, binary):
    inputs = []
    for one in metadata["inputs"]:
        name, datatype = one["name"], one["datatype"]
        texts = [row[name] for row in rows]
        if datatype == "FP64" and all(texts):
            data = np.array([[float(text)] for text in texts], dtype=np.float64)
        else:  # Missing values are empty texts.
            datatype = "BYTES"
            data = np.array([[text.encode()] for text in texts], dtype=np.object_)
        tensor = module.InferInput(name, data.shape, datatype)
        tensor.set_data_from_numpy(data, binary_data=binary)
        inputs.append(tensor)
    return inputs


def outputs_of(module, metadata, binary):
    return [module.InferRequestedOutput(one["name"], binary_data=binary) for one in metadata["outputs"]]


def values_of(result, metadata):
    return [result.as_numpy(one["name"])[:, 0] for one in metadata["outputs"]]


def ask_sync(url, context, headers, model, rows, binary):
    options = {"ssl": True, "ssl_context_factory": lambda: context} if context else {}
    with sync.InferenceServerClient(url, **options) as client:
        assert client.is_server_live(headers=headers)
        assert client.is_server_ready(headers=headers)
        assert client.is_model_ready(model, headers=headers)
        assert "binary_tensor_data" in client.get_server_metadata(headers=headers)["extensions"]
        assert client.get_model_config(model, headers=headers)["max_batch_size"] > 0
        metadata = client.get_model_metadata(model, headers=headers)
        result = client.infer(model, inputs_of(sync, metadata, rows, binary), request_id="7",
                              outputs=outputs_of(sync, metadata, binary), headers=headers,
                              model_version=metadata["versions"][0], timeout=5_000_000)
        response = result.get_response()
        assert response["id"] == "7" and response["model_name"] == model, response
        assert response["model_version"] == metadata["versions"][0], response
        return values_of(result, metadata)


async def ask_async(url, context, headers, model, rows, binary):
    options = {"ssl": True, "ssl_context": context} if context else {}
    async with aio.InferenceServerClient(url, **options) as client:
        metadata = await client.get_model_metadata(model, headers=headers)

        async def one():
            return await client.infer(model, inputs_of(aio, metadata, rows, binary),
                                      outputs=outputs_of(aio, metadata, binary), headers=headers)

        results = await asyncio.gather(*[one() for _ in range(8)])
        values = [values_of(result, metadata) for result in results]
        for other in values[1:]:
            np.testing.assert_allclose(other, values[0], atol=TOLERANCE, rtol=0)
        return values[0]


def ask_v1(url, context, headers, model, rows):
    instances = [{key: value for key, value in row.items() if value != ""} for row in rows]
    request = urllib.request.Request(f"{url}/v1/models/{model}:predict",
                                     json.dumps({"instances": instances}).encode(), headers)
    with urllib.request.urlopen(request, context=context) as response:
        predictions = np.array(json.load(response)["predictions"], dtype=np.float32)
    return list(predictions.reshape(len(rows), -1).T)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("rows")
    parser.add_argument("--ca")
    parser.add_argument("--token")
    given = parser.parse_args()
    headers = {}
    if given.token:
        with open(given.token, encoding="ascii") as file:
            headers["Authorization"] = f"Bearer {file.read().strip()}"
    context = ssl.create_default_context(cafile=given.ca) if given.ca else None
    with open(given.rows, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = [name for name in rows[0] if name == "p" or name.startswith("p_")]
    wanted = [np.array([float(row.pop(name)) for row in rows]) for name in columns]
    address = given.url.split("://")[1].rstrip("/")
    answers = [ask_v1(given.url, context, headers, given.model, rows)]
    for binary in (False, True):
        answers.append(ask_sync(address, context, headers, given.model, rows, binary))
        answers.append(asyncio.run(ask_async(address, context, headers, given.model, rows, binary)))
    for found in answers:
        np.testing.assert_allclose(found, wanted, atol=TOLERANCE, rtol=0)
    print(len(answers), len(rows))


if __name__ == "__main__":
    sys.exit(main())
