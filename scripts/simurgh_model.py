#!/usr/bin/env python3
"""A trained model as a PyTorch module, to predict and to train further. Needs torch, numpy and safetensors. With xxhash, deltas are checked.

    model = simurgh_model.load("/models/adult", tables=True)
    samples = safetensors.numpy.load_file("features.safetensors")  # Of `simurgh export features`.
    dense = torch.from_numpy(samples["dense"])
    probabilities = model(dense, model.embed(samples))  # [N, labels], those of `simurgh predict`.
    simurgh_model.save_dense(model, "weights.safetensors")  # For the key model.initial_weights.

As a program it predicts samples: simurgh_model.py MODEL FEATURES.safetensors
Embeddings are not rounded: the precisions embedding_worker.row_precision and training.embedding_precision are not
applied. src/model/FORMAT.md describes the files.
"""
import json
import math
import os
import sys

import numpy
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

try:
    import xxhash
except ImportError:
    xxhash = None


class Layer(torch.nn.Module):
    """A layer. `values` has its tensors by the last part of their names. x: its input; origin: that of its tower."""

    def __init__(self, config, values):
        super().__init__()
        self.config = config
        for name, value in values.items():
            if name.startswith("running_"):
                self.register_buffer(name, value)
            else:
                self.register_parameter(name, torch.nn.Parameter(value))

    def forward(self, x, origin):
        kind = self.config["kind"]
        if kind == "linear":
            return x @ self.weight + self.bias
        if kind == "batch_norm":
            return torch.nn.functional.batch_norm(
                x, self.running_mean, self.running_variance, self.scale, self.shift,
                self.training, self.config["momentum"], self.config["epsilon"])
        if kind == "relu":
            return torch.relu(x)
        if kind == "gelu":
            return x * torch.sigmoid(1.5957691216 * (x + 0.044715 * x**3))
        if kind == "silu":
            return torch.nn.functional.silu(x)
        if kind == "tanh":
            return torch.tanh(x)
        if kind == "sigmoid":
            return torch.sigmoid(x)
        if kind == "dropout":
            return torch.nn.functional.dropout(x, self.config["rate"], self.training)
        if kind == "gate":
            return 2 * torch.sigmoid(x)
        if kind == "prelu":
            return torch.nn.functional.prelu(x, self.slope)
        if kind == "dice":
            p = torch.sigmoid(torch.nn.functional.batch_norm(
                x, self.running_mean, self.running_variance, None, None,
                self.training, self.config["momentum"], self.config["epsilon"]))
            return x * (p + (1 - p) * self.slope)
        if kind == "layer_norm":
            return torch.nn.functional.layer_norm(x, x.shape[1:], self.scale, self.shift, self.config["epsilon"])
        if kind == "l2_norm":
            return torch.nn.functional.normalize(x, dim=1)
        if kind == "cross":
            product = x @ self.weight if self.config["rank"] == 0 else x @ self.down @ self.up
            return origin * (product + self.bias) + x
        if kind == "sum":
            return x.reshape(len(x), self.config["width"], -1).sum(2)
        if kind == "product":
            return x.reshape(len(x), self.config["width"], -1).prod(1)
        if kind == "bilinear":
            heads = self.weight.reshape(self.config["width"], -1, self.weight.shape[1])
            one, two = x.reshape(len(x), 2, len(heads), -1).unbind(1)
            return torch.einsum("nhi,hij,nhj->n", one, heads, two)[:, None]
        if kind == "joint":
            total = torch.nn.functional.logsigmoid(x).reshape(len(x), self.config["width"], -1).sum(1)
            return total - torch.log((-torch.expm1(total)).clamp(min=torch.finfo(x.dtype).tiny))
        if kind == "softmax":
            return torch.softmax(x, 1)
        if kind == "mix":
            gates, rest = x[:, :self.config["width"]], x[:, self.config["width"]:]
            return (gates[:, :, None] * rest.reshape(*gates.shape, -1)).sum(1)
        if kind in ("mean", "last", "attention"):
            return self._pool(x, self.config["dim"])
        if kind == "self_attention":
            return self._block(x, self.config["dim"])
        vectors = x.reshape(len(x), -1, self.config["width"])
        if kind == "dot":
            rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
            return (vectors @ vectors.transpose(1, 2))[:, rows, columns]
        if kind == "fm":
            return 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1, keepdim=True)
        raise ValueError(f"a layer of kind '{kind}' is not known; use the program's version of this file")

    def _pool(self, x, dim):
        """Pools rows of this dim. Columns of x: a query (attention), the rows, a mask that begins with its ones."""
        query, rows, mask = _sequence(x, dim)
        lengths, places = mask.sum(1, keepdim=True), mask.shape[1]
        if self.config["kind"] == "mean":
            weights = mask / lengths.clamp(min=1)
        elif self.config["kind"] == "last":
            weights = (torch.arange(1, places + 1) == lengths).to(x.dtype)
        else:
            scores = self._scores(query, rows, mask)
            if self.config.get("softmax", False):
                scores = torch.softmax(scores.masked_fill(mask == 0, -1e9), 1)
            weights = mask * scores
        return (weights[:, :, None] * rows).sum(1)

    def _scores(self, query, rows, mask):
        """The weights of attention, before a softmax."""
        queries = query[:, None].expand(-1, rows.shape[1], -1)
        common = rows[:, :, :query.shape[1]]
        x = torch.cat([queries, rows, queries - common, queries * common], 2)
        last = len(self.config["hidden"]) + 1
        for i in range(1, last + 1):
            x = x @ getattr(self, f"weight_{i}") + getattr(self, f"bias_{i}")
            if i < last:
                x = self._activation(x, mask, i)
        return x[:, :, 0]

    def _activation(self, x, mask, i):
        """The activation of a hidden layer of attention."""
        kind = self.config.get("activation", "relu")
        if kind == "relu":
            return torch.relu(x)
        if kind == "sigmoid":
            return torch.sigmoid(x)
        if kind == "prelu":
            return torch.where(x > 0, x, getattr(self, f"slope_{i}") * x)
        if kind == "dice":
            chosen = mask > 0 if self.training else torch.ones_like(mask, dtype=torch.bool)
            normalised = torch.zeros_like(x)
            if chosen.any():
                normalised[chosen] = torch.nn.functional.batch_norm(
                    x[chosen], getattr(self, f"running_mean_{i}"), getattr(self, f"running_variance_{i}"), None, None,
                    self.training, self.config.get("momentum", 0.1), self.config.get("epsilon", 1e-5))
            p = torch.sigmoid(normalised)
            return x * (p + (1 - p) * getattr(self, f"slope_{i}"))
        raise ValueError(f"an activation '{kind}' is not known; use the program's version of this file")

    def _block(self, x, dim):
        """A transformer block over rows of this dim. Columns of x: the rows, their mask."""
        _, rows, mask = _sequence(x, dim)
        places, heads = mask.shape[1], self.config["heads"]
        if self.config["positions"]:
            rows = rows + self.positions
        query, key, value = ((rows @ self.weight_in + self.bias_in).reshape(len(x), places, 3, heads, -1)
                             .permute(2, 0, 3, 1, 4))
        shut = (mask == 0)[:, None, None].expand(-1, heads, places, -1)
        if self.config["causal"]:
            shut = shut | torch.ones(places, places, dtype=torch.bool, device=x.device).triu(1)
        scores = query @ key.transpose(2, 3) / math.sqrt(dim // heads)
        mixed = torch.softmax(scores.masked_fill(shut, -1e9), 3) @ value
        rows = self._norm(rows + mixed.transpose(1, 2).reshape(rows.shape) @ self.weight_out + self.bias_out, 1)
        hidden = torch.relu(rows @ self.weight_1 + self.bias_1)
        rows = self._norm(rows + hidden @ self.weight_2 + self.bias_2, 2)
        return (rows * mask[:, :, None]).reshape(len(x), -1)

    def _norm(self, rows, i):
        scale, shift = getattr(self, f"scale_{i}"), getattr(self, f"shift_{i}")
        return torch.nn.functional.layer_norm(rows, rows.shape[-1:], scale, shift, self.config["epsilon"])


def _sequence(x, dim):
    """(query, rows [N, places, dim], mask) from their columns."""
    places = x.shape[1] // (dim + 1)
    query, rows, mask = x.split([x.shape[1] - places * (dim + 1), places * dim, places], 1)
    return query, rows.reshape(len(x), places, dim), mask


def _input(tower, blocks):
    """The input of a tower. Several sequences at its end, before the mask, become one."""
    inputs = [blocks[name] for name in tower["inputs"]]
    dims = tower["layers"][0].get("dims")
    if dims is None:
        return torch.cat(inputs, 1)
    end = len(inputs) - 1
    sequences = [x.reshape(len(x), -1, dim) for x, dim in zip(inputs[end - len(dims):end], dims)]
    return torch.cat([*inputs[:end - len(dims)], torch.cat(sequences, 2).flatten(1), inputs[end]], 1)


class Table(torch.nn.Module):
    """The rows of a table. `ids`: their ids, ascending, uint64 in numpy; `weights`: [rows, dim]."""

    def __init__(self, ids, weights):
        super().__init__()
        order = numpy.argsort(ids)
        self.ids = ids[order]
        self.weights = torch.nn.Parameter(torch.from_numpy(weights[order]))

    def forward(self, ids):
        """The rows of some ids, uint64 in numpy: [ids, dim]. An id without a row has zeros."""
        rows = numpy.minimum(numpy.searchsorted(self.ids, ids), max(len(self.ids) - 1, 0))
        if len(self.ids) == 0:
            return self.weights.new_zeros(len(ids), self.weights.shape[1])
        found = torch.from_numpy(self.ids[rows] == ids)
        return torch.where(found[:, None], self.weights[torch.from_numpy(rows)], self.weights.new_zeros(1))


class Model(torch.nn.Module):
    """The dense network; see load()."""

    def __init__(self, network, values, tables=None, calibration=None):
        super().__init__()
        self.network = network
        self.calibration = calibration or [(1.0, 1.0, 0.0)] * len(network.get("labels", [""]))
        self.layers = torch.nn.ModuleDict()
        for tower, index, layer in self.plan():
            prefix = f"{tower['name']}.{index}."
            own = {name[len(prefix):]: value for name, value in values.items() if name.startswith(prefix)}
            self.layers[_key(tower, index)] = Layer(layer, own)
        self.tables = torch.nn.ModuleDict({f"table {name}": table for name, table in (tables or {}).items()})
        self.eval()

    def plan(self):
        """(tower, number of the layer from 1, layer) for each layer."""
        return [(tower, index, layer) for tower in self.network["towers"]
                for index, layer in enumerate(tower["layers"], 1)]

    def logits(self, dense, embeddings):
        """Logits [N, labels] of dense [N, D] and embeddings [N, E], for a loss. Either is None if there is none."""
        blocks = {"dense": dense, "embeddings": embeddings}
        first = 0
        for feature in self.network["embeddings"]:
            blocks["embeddings." + feature["feature"]] = embeddings[:, first:first + feature["width"]]
            first += feature["width"]
            mask = f"mask.{feature['feature']}"
            columns = [i for i, name in enumerate(self.network["dense"]) if name.startswith(mask + ".")]
            if columns:
                blocks[mask] = dense[:, columns]
        for tower in self.network["towers"]:
            x = origin = _input(tower, blocks)
            for index in range(1, len(tower["layers"]) + 1):
                x = self.layers[_key(tower, index)](x, origin)
            blocks[tower["name"]] = x
        return x

    def forward(self, dense, embeddings):
        """Predictions [N, labels]: probabilities, corrected for keep_negatives and calibrated, or numbers."""
        outputs = self.logits(dense, embeddings)
        low, high, shift = torch.tensor(self.calibration, dtype=outputs.dtype, device=outputs.device).T
        logits = outputs + math.log(self.network["keep_negatives"])
        softplus = torch.nn.functional.softplus(logits)
        probabilities = torch.sigmoid(low * logits + (high - low) * softplus + shift)
        by_loss = {"squared_error": outputs, "poisson": torch.exp(outputs),
                   "in_batch_softmax": outputs / self.network.get("temperature", 1.0)}
        losses = self.network.get("losses", [])  # Older models have none: all labels are binary.
        if not any(loss in by_loss for loss in losses):
            return probabilities
        columns = [by_loss.get(loss, probabilities)[:, i] for i, loss in enumerate(losses)]
        for i, scale in enumerate(self.network.get("scales", [])):
            columns[i] = columns[i] * scale["stddev"] + scale["mean"]
        return torch.stack(columns, 1)

    def embed(self, samples):
        """Embeddings [N, E] of the arrays of `simurgh export features`. Needs load(tables=True)."""
        return torch.cat([self._pool(feature, samples) for feature in self.network["embeddings"]], 1)

    def _pool(self, feature, samples):
        name, dim, pooling = feature["feature"], feature["dim"], feature["pooling"]
        offsets = torch.from_numpy(samples[name + ".offsets"].astype("i8"))
        rows = self.tables["table " + feature["table"]](samples[name + ".ids"])
        counts = offsets.diff()
        sample = torch.repeat_interleave(torch.arange(len(counts)), counts)
        if pooling == "raw":
            places = feature["width"] // dim
            place = (torch.arange(len(rows)) - offsets[:-1][sample]) // feature["rows_per_id"]
            used = place < places
            pooled = rows.new_zeros(len(counts) * places, dim)
            return pooled.index_add(0, (sample * places + place)[used], rows[used]).reshape(len(counts), -1)
        if pooling == "max":
            index = sample[:, None].expand_as(rows)
            return rows.new_zeros(len(counts), dim).scatter_reduce(0, index, rows, "amax", include_self=False)
        if pooling == "weighted_sum" and name + ".weights" in samples:
            rows = rows * torch.from_numpy(samples[name + ".weights"])[:, None]
        pooled = rows.new_zeros(len(counts), dim).index_add(0, sample, rows)
        ids = torch.ceil(counts / feature["rows_per_id"]).clamp(min=1)[:, None]
        return pooled / {"mean": ids, "sqrt_n": ids.sqrt()}.get(pooling, 1)


def load(model_dir, step=None, tables=False):
    """The model of a folder. step: a number or "latest"; None: the best checkpoint, or without one the newest.
    tables: also load the rows of all tables, for embed()."""
    folder, manifest = _checkpoint(model_dir, step)
    if "network" not in manifest["extra"]:
        raise ValueError(f"{folder}: an older version saved it, without `network`; train on until the next checkpoint")
    network = json.loads(manifest["extra"]["network"])
    tensors = load_file(folder + "/dense.safetensors")
    values = {name: torch.from_numpy(value) for name, value in tensors.items() if value.dtype == "f4"}
    average, first = values.get("average.weights"), 0
    for name in _weights(network) if average is not None else ():
        shape = values[name].shape
        values[name] = average[first:first + shape.numel()].reshape(shape).clone()
        first += shape.numel()
    names = {feature["table"] for feature in network["embeddings"]} if tables else ()
    rows = {name: _table(folder, manifest, name, network) for name in names}
    return Model(network, values, rows, _calibration(manifest["extra"].get("calibration")))


def _calibration(text):
    """(low, high, shift) of each label of "0.8 1.2 -0.1, 1 0". Equal slopes are one number."""
    labels = [list(map(float, label.split())) for label in text.split(", ")] if text else []
    return [(label[0], label[-2], label[-1]) for label in labels]


def save_dense(model, path):
    """Writes weights and running statistics to a file for model.initial_weights."""
    values = {}
    for tower, index, _ in model.plan():
        for name, value in model.layers[_key(tower, index)].state_dict().items():
            values[f"{tower['name']}.{index}.{name}"] = numpy.ascontiguousarray(value.cpu().numpy().astype("f4"))
    save_file(values, path)


def _key(tower, index):
    """Of a layer in Model.layers. PyTorch allows no dot, which the names of experts have."""
    return f"{tower['name']} {index}".replace(".", ":")


def _weights(network):
    """Names of the weights, in the order of `average.weights`."""
    for tower in network["towers"]:
        for index, layer in enumerate(tower["layers"], 1):
            parts = {"linear": ("weight", "bias"), "batch_norm": ("scale", "shift"), "cross": ("weight", "bias"),
                     "layer_norm": ("scale", "shift"), "prelu": ("slope",), "dice": ("slope",), "bilinear": ("weight",)}
            if layer.get("rank"):
                parts["cross"] = ("down", "up", "bias")
            if layer["kind"] == "attention":
                numbers = range(1, len(layer["hidden"]) + 2)
                with_slope = ("weight", "bias", "slope")
                own = with_slope if layer.get("activation") in ("prelu", "dice") else with_slope[:2]
                parts["attention"] = [f"{part}_{i}" for i in numbers for part in own]
                if own == with_slope:
                    parts["attention"].pop()  # The last layer has no activation.
            if layer["kind"] == "self_attention":
                parts["self_attention"] = [
                    *(["positions"] if layer["positions"] else []), "weight_in", "bias_in", "weight_out", "bias_out",
                    "scale_1", "shift_1", "weight_1", "bias_1", "weight_2", "bias_2", "scale_2", "shift_2"]
            for part in parts.get(layer["kind"], ()):
                yield f"{tower['name']}.{index}.{part}"


def _manifest(folder):
    """Checks the checksum that newer versions write, if xxhash is there."""
    with open(folder + "/manifest.json", "rb") as file:
        text = file.read()
    manifest = json.loads(text)
    # The checksum in the second line is that of all that follows.
    if "checksum" in manifest and xxhash is not None:
        head = b'{\n "checksum": "%016x",\n' % xxhash.xxh3_64_intdigest(text[text.index(b"\n", 2) + 1:])
        if not text.startswith(head):
            raise ValueError(f"{folder}/manifest.json: checksum: it is not that of the text")
    return manifest


def _checkpoint(model_dir, step):
    if step is None and os.path.exists(model_dir + "/best"):
        with open(model_dir + "/best", encoding="utf-8") as file:
            step = file.readline().strip()[len("step-"):]
    if step in (None, "latest"):
        names = [name for name in os.listdir(model_dir) if name.startswith("step-") and name[5:].isdigit()]
        found = [(_manifest(f"{model_dir}/{name}"), name) for name in names]
        step = max(((one["generation"], one["step"]) for one, _ in found), default=(0, None))[1]
    if step is None:
        raise FileNotFoundError(f"{model_dir}: there is no checkpoint")
    folder = f"{model_dir}/step-{step}"
    return folder, _manifest(folder)


def _rows(folder, manifest, path):
    """Ids and weights of a server's file of rows, with those that a delta continues."""
    with safe_open(f"{folder}/{path}", "numpy") as file:
        metadata, ids, weights = file.metadata() or {}, file.get_tensor("id"), file.get_tensor("weights")
    if metadata.get("weights.format") == "bf16":
        weights = (weights.astype("u4") << 16).view("f4")
    weights = weights.astype("f4")
    if "rows_after_delta" not in metadata:
        return ids, weights
    parent = f"{os.path.dirname(os.path.abspath(folder))}/step-{manifest['parent']['step']}"
    old_manifest = _manifest(parent)
    _check_parent(folder, manifest, parent, old_manifest)
    old_ids, old_weights = _rows(parent, old_manifest, path)
    removed = load_file(f"{folder}/removed{path[len('rows'):]}")["id"]
    kept = ~numpy.isin(old_ids, numpy.concatenate([removed, ids]))
    ids, weights = numpy.concatenate([old_ids[kept], ids]), numpy.concatenate([old_weights[kept], weights])
    if len(ids) != int(metadata["rows_after_delta"]):
        raise ValueError(f"{folder}/{path}: it does not continue {parent}")
    return ids, weights


def _check_parent(folder, manifest, parent, old_manifest):
    """Refuses another checkpoint in the place of the one that a delta continues."""
    if xxhash is None:
        # A later start of training can have replaced the parent.
        same = old_manifest["run"] == manifest["run"] and old_manifest["generation"] <= manifest["generation"]
        how = " by run and generation; install xxhash to compare checksums"
    else:
        with open(parent + "/manifest.json", "rb") as file:
            same, how = xxhash.xxh3_64_hexdigest(file.read()) == manifest["parent"]["checksum"], ""
    if not same or old_manifest["step"] != manifest["parent"]["step"]:
        raise ValueError(f"{folder}: {parent} is not the checkpoint that it continues{how}")


def _table(folder, manifest, name, network):
    dim = next(feature["dim"] for feature in network["embeddings"] if feature["table"] == name)
    parts = [(numpy.zeros(0, "u8"), numpy.zeros((0, dim), "f4"))]
    for file in manifest["files"]:
        if file["path"].startswith(f"rows/{name}/"):
            parts.append(_rows(folder, manifest, file["path"]))
    return Table(*(numpy.concatenate(one) for one in zip(*parts)))


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    model, samples = load(sys.argv[1], tables=True), load_file(sys.argv[2])
    with torch.no_grad():
        dense = torch.from_numpy(samples["dense"]) if "dense" in samples else None
        for row in model(dense, model.embed(samples)).tolist():
            print(",".join(map(repr, row)))


if __name__ == "__main__":
    main()
