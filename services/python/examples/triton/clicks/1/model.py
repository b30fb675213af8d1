"""A model of Triton's Python back end: predicts with a model of Simurgh, and follows its training.

config.pbtxt names the columns of the data as inputs, and the folder of the model. Triton joins
requests; the columns of all are processed as in training. A network of your own predicts in place
of the configuration's: simurgh.torch.predict(self.model, net, table).
"""

import json

import numpy as np
import polars
import simurgh
import triton_python_backend_utils as triton


def joined(requests, name):
    """The values of a column in all requests, one for each row."""
    tensors = [triton.get_input_tensor_by_name(request, name).as_numpy().reshape(-1) for request in requests]
    values = np.concatenate(tensors)
    return [text.decode() or None for text in values] if values.dtype == object else values


class TritonPythonModel:
    def initialize(self, arguments):
        config = json.loads(arguments["model_config"])
        self.columns = [one["name"] for one in config["input"]]
        self.output = config["output"][0]["name"]
        self.model = simurgh.Model(config["parameters"]["model"]["string_value"], follow=True)

    def execute(self, requests):
        try:
            table = polars.DataFrame({name: joined(requests, name) for name in self.columns})
            probabilities = self.model.predict(table).reshape(len(table), -1)
        except (simurgh.Error, polars.exceptions.PolarsError, UnicodeDecodeError) as error:
            if len(requests) > 1:  # A bad request must not fail the others.
                return [response for request in requests for response in self.execute([request])]
            return [triton.InferenceResponse(error=triton.TritonError(str(error)))]
        responses, first = [], 0
        for request in requests:
            last = first + triton.get_input_tensor_by_name(request, self.columns[0]).shape()[0]
            responses.append(self.respond(probabilities[first:last]))
            first = last
        return responses

    def respond(self, probabilities):
        bad = np.isnan(probabilities).any(axis=1).nonzero()[0]
        if len(bad) > 0:
            return triton.InferenceResponse(error=triton.TritonError(f"row {bad[0]} cannot be parsed"))
        return triton.InferenceResponse([triton.Tensor(self.output, probabilities)])

    def finalize(self):
        self.model.close()
