#!/usr/bin/env python3
"""Checks ONNX models and predicts with onnxruntime.

Usage: onnx_reference.py FOLDER
For each FOLDER/NAME.onnx with inputs NAME.dense and NAME.embeddings, f32 without a header, writes
probabilities to NAME.found: first of all rows, then of the first one, label after label.
"""
import glob
import sys
import numpy
import onnx
import onnxruntime

for path in sorted(glob.glob(sys.argv[1] + "/*.onnx")):
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    assert [(one.domain, one.version) for one in model.opset_import] == [("", 17)], path
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = {}
    for one in session.get_inputs():
        assert one.type == "tensor(float)" and one.shape[0] == "N", path
        inputs[one.name] = numpy.fromfile(path[:-4] + one.name, "<f4").reshape(-1, one.shape[1])
    assert all(one.shape == ["N"] for one in session.get_outputs()), path
    first = {name: values[:1] for name, values in inputs.items()}
    found = session.run(None, inputs) + session.run(None, first)
    numpy.concatenate(found).astype("<f4").tofile(path[:-4] + "found")
    print(path, model.model_version, {one.key: one.value for one in model.metadata_props},
          [one.name for one in session.get_outputs()])
