#!/usr/bin/env python3
"""Compares the blocks of a model with torch.nn.TransformerEncoderLayer: outputs and gradients of the inputs, in f64.

Usage: transformer_reference.py FOLDER, which torch_reference.py has read. Each sample must have a row.
"""
import sys

sys.argv[1:] = [sys.argv[1]]
from torch_reference import model, dense, embeddings, torch  # noqa: E402

seen = []
for layer in model.layers.values():
    if layer.config["kind"] == "self_attention":
        layer.register_forward_hook(lambda layer, inputs, output: seen.append((layer, inputs[0].detach(), output)))
model.logits(dense, embeddings)
assert len(seen) == 2, seen
for layer, x, wanted in list(seen):  # The hook also sees the calls below.
    dim, places = layer.config["dim"], x.shape[1] // (layer.config["dim"] + 1)
    torch.manual_seed(1)
    encoder = torch.nn.TransformerEncoderLayer(
        dim, layer.config["heads"], layer.config["hidden"], dropout=0, activation="relu", norm_first=False,
        layer_norm_eps=layer.config["epsilon"], batch_first=True).double().train()
    parts = {"self_attn.in_proj_weight": layer.weight_in.T, "self_attn.in_proj_bias": layer.bias_in,
             "self_attn.out_proj.weight": layer.weight_out.T, "self_attn.out_proj.bias": layer.bias_out,
             "linear1.weight": layer.weight_1.T, "linear1.bias": layer.bias_1,
             "linear2.weight": layer.weight_2.T, "linear2.bias": layer.bias_2,
             "norm1.weight": layer.scale_1, "norm1.bias": layer.shift_1,
             "norm2.weight": layer.scale_2, "norm2.bias": layer.shift_2}
    encoder.load_state_dict(parts)
    mask = x[:, places * dim:]
    causal = torch.ones(places, places, dtype=torch.bool).triu(1) if layer.config["causal"] else None
    direction = torch.randn(*wanted.shape, dtype=torch.float64)
    gradients = []
    for is_ours in (True, False):
        inputs = x.clone().requires_grad_()
        if is_ours:
            output = layer(inputs, inputs)
        else:
            rows = inputs[:, :places * dim].reshape(len(x), places, dim)
            if layer.config["positions"]:
                rows = rows + layer.positions
            output = encoder(rows, src_mask=causal, src_key_padding_mask=mask == 0)
            output = (output * mask[:, :, None]).reshape(len(x), -1)
            torch.testing.assert_close(output, wanted)
        (output * direction).sum().backward()
        gradients.append(inputs.grad[:, :places * dim])
    torch.testing.assert_close(*gradients)
