"""Networks of FuxiCTR's model zoo, which its package lacks, of its layers and with the zoo's default settings.

Source: https://github.com/reczoo/FuxiCTR, version 2.3.10, model_zoo/NAME/{src/NAME.py,config/model_config.yaml}.
Batches have 4096 rows in place of 10000, or fewer if an epoch would have fewer than STEPS steps."""

import tempfile

import numpy as np
import torch
from fuxictr.features import FeatureMap
from fuxictr.pytorch import layers
from fuxictr.pytorch.models import BaseModel
from fuxictr.pytorch.torch_utils import seed_everything
from torch import nn

BATCH, STEPS = 4096, 16
EPOCHS = 100  # At most: training ends after two epochs without a better result of the validation.
MONITOR = {"AUC": 1, "logloss": -1}


class _Network(BaseModel):
    monitor = MONITOR

    def __init__(self, feature_map, folder):
        super().__init__(
            feature_map, model_id="model", monitor=self.monitor, verbose=0, model_root=folder,
            metrics=["AUC", "logloss"],
        )
        embedding = layers.FeatureEmbeddingDict if self.histories else layers.FeatureEmbedding
        self.embedding_layer = embedding(feature_map, self.dim)
        self.build(feature_map, self.dim * feature_map.num_fields)
        self.compile("adam", "binary_crossentropy", 0.001)
        self.reset_parameters()

    dim = 40
    histories = False  # Whether the network reads histories itself. Others get their mean.

    def forward(self, inputs):
        return {"y_pred": torch.sigmoid(self.logits(self.get_inputs(inputs)))}


class DeepFM(_Network):
    def build(self, feature_map, width):
        self.fm = layers.FactorizationMachine(feature_map)
        self.mlp = layers.MLP_Block(width, [300] * 3, output_dim=1)

    def logits(self, inputs):
        rows = self.embedding_layer(inputs)
        return self.fm(inputs, rows) + self.mlp(rows.flatten(1))


class DCNv2(_Network):
    def build(self, feature_map, width):
        self.cross = layers.CrossNetV2(width, 3)
        self.deep = layers.MLP_Block(width, [500] * 3)
        self.last = nn.Linear(width + 500, 1)

    def logits(self, inputs):
        rows = self.embedding_layer(inputs, flatten_emb=True)
        return self.last(torch.cat([self.cross(rows), self.deep(rows)], -1))


class FinalMLP(_Network):
    dim = 16

    def build(self, feature_map, width):
        self.gate_inputs = nn.ParameterList(torch.zeros(1, self.dim) for _ in range(2))
        self.gates = nn.ModuleList(
            layers.MLP_Block(self.dim, [1024, 512], output_dim=width, output_activation="Sigmoid")
            for _ in range(2)
        )
        self.towers = nn.ModuleList(layers.MLP_Block(width, u) for u in ([1024, 512], [1024, 512, 256]))
        self.first_order = nn.ModuleList(nn.Linear(u, 1) for u in (512, 256))
        self.product = nn.Parameter(nn.init.xavier_normal_(torch.empty(2 * 256 * 128, 1)))  # Of 2 heads.

    def logits(self, inputs):
        rows = self.embedding_layer(inputs).flatten(1)
        x, y = (t(rows * 2 * g(i)) for t, g, i in zip(self.towers, self.gates, self.gate_inputs))
        heads = torch.einsum(
            "bhi,hij,bhj->b", x.view(-1, 2, 256), self.product.view(2, 256, 128), y.view(-1, 2, 128)
        )
        return self.first_order[0](x) + self.first_order[1](y) + heads[:, None]


class MaskNet(_Network):
    """The serial form."""

    monitor = "AUC"

    def build(self, feature_map, width):
        units = [width, 400, 400, 400]
        self.norms = nn.ModuleList(nn.LayerNorm(self.dim) for _ in range(feature_map.num_fields))
        self.masks = nn.ModuleList(layers.MLP_Block(width, [u], output_dim=u) for u in units[:-1])
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(u, v, bias=False), nn.LayerNorm(v), nn.ReLU())
            for u, v in zip(units, units[1:])
        )
        self.last = nn.Linear(400, 1)

    def logits(self, inputs):
        rows = self.embedding_layer(inputs)
        hidden = torch.cat([norm(row) for norm, row in zip(self.norms, rows.unbind(1))], -1)
        for mask, block in zip(self.masks, self.blocks):
            hidden = block(mask(rows.flatten(1)) * hidden)
        return self.last(hidden)


class DIN(_Network):
    histories = True

    def build(self, feature_map, width):
        self.pairs = feature_map.histories  # Of the names of an item and of its history.
        self.attention = layers.DIN_Attention(self.dim * len(self.pairs), [64], "Dice")
        self.dnn = layers.MLP_Block(width, [500] * 3, output_dim=1)

    def logits(self, inputs):
        rows = self.embedding_layer(inputs)
        item = torch.cat([rows[name] for name, _ in self.pairs], -1)
        history = torch.cat([rows[name] for _, name in self.pairs], -1)
        pooled = self.attention(item, history, inputs[self.pairs[0][1]] != 0)
        for (_, name), part in zip(self.pairs, pooled.split(self.dim, -1)):
            rows[name] = part
        return self.dnn(self.embedding_layer.dict2tensor(rows, flatten_emb=True))


class BST(_Network):
    dim = 16
    histories = True
    heads = 4

    def build(self, feature_map, width):
        self.pairs = feature_map.histories
        length = feature_map.features[self.pairs[0][1]]["max_len"] + 1
        inner = self.dim * (len(self.pairs) + 1)
        places, steps = np.arange(length)[:, None], np.arange(0, self.dim, 2)
        angles = places * np.exp(steps * (-np.log(10000.0) / self.dim))
        waves = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, self.dim)
        self.places = nn.Parameter(torch.tensor(waves, dtype=torch.float32))
        self.attention = nn.MultiheadAttention(inner, self.heads, batch_first=True)
        self.inner = nn.Sequential(nn.Linear(inner, inner), nn.LeakyReLU(), nn.Linear(inner, inner))
        self.norms = nn.ModuleList(nn.LayerNorm(inner) for _ in range(2))
        self.dnn = layers.MLP_Block(width + self.dim, [1024, 512, 256], output_dim=1)

    def logits(self, inputs):
        rows = self.embedding_layer(inputs)
        item = torch.cat([rows[name] for name, _ in self.pairs], -1)
        history = torch.cat([rows.pop(name) for _, name in self.pairs], -1)
        x = torch.cat([history, item[:, None]], 1)
        x = torch.cat([x, self.places.expand(len(x), -1, -1)], -1)
        is_missing = nn.functional.pad(inputs[self.pairs[0][1]] == 0, (0, 1))
        is_self = torch.eye(x.shape[1], dtype=torch.bool)
        hidden = (is_missing[:, None] & ~is_self).repeat_interleave(self.heads, 0)
        x = self.norms[0](x + self.attention(x, x, x, attn_mask=hidden, need_weights=False)[0])
        x = self.norms[1](x + self.inner(x))
        is_there = (~is_missing).float()[..., None]
        pooled = (x * is_there).sum(1) / is_there.sum(1)
        return self.dnn(torch.cat([*rows.values(), pooled], -1))


NETWORKS = {n.__name__.lower(): n for n in (DeepFM, DCNv2, FinalMLP, MaskNet, DIN, BST)}


class _Batches:
    """Batches of a part of the rows, as FuxiCTR's loaders make them."""

    def __init__(self, columns, size, shuffle):
        self.columns, self.size, self.shuffle = columns, size, shuffle
        self.rows = len(columns["label"])

    def __len__(self):
        return -(-self.rows // self.size)

    def __iter__(self):
        order = torch.randperm(self.rows) if self.shuffle else torch.arange(self.rows)
        for rows in order.split(self.size):
            yield {name: column[rows] for name, column in self.columns.items()}


def fit(name, parts, layout, seed, threads):
    """Trains on the first of `parts`; returns predictions of the others. The second stops the training."""
    torch.set_num_threads(threads)
    seed_everything(seed)
    network = NETWORKS[name]
    histories = layout.histories if network.histories else []
    if network.histories and not histories:
        raise SystemExit(f"{name} needs a history, such as hist_item_id of item_id")
    feature_map = _feature_map(parts, layout, network.histories)
    rows = len(parts[0].labels)
    size = min(BATCH, max(1, rows // STEPS))
    columns = [_columns(part, feature_map) for part in parts]
    train = _Batches(columns[0], size, shuffle=True)
    valid, *others = (_Batches(c, BATCH, shuffle=False) for c in columns[1:])
    with tempfile.TemporaryDirectory() as folder:
        model = network(feature_map, folder)
        model.fit(train, epochs=EPOCHS, validation_data=valid)
        return [model.predict(part) for part in (valid, *others)]


def _feature_map(parts, layout, are_histories_read):
    """Features are named c0, c1, ... and numbers n0, n1, ..., as names of modules have no points."""
    feature_map = FeatureMap(".", "")
    feature_map.labels = ["label"]
    feature_map.histories = [(f"c{item}", f"c{history}") for item, history in layout.histories]
    of_history = {history: item for item, history in feature_map.histories}
    order = sorted(range(len(layout.sizes)), key=lambda i: f"c{i}" in of_history)  # Histories are last.
    for i in order:
        name, longest = f"c{i}", max(map(len, parts[0].ids[i]))
        spec = {"type": "categorical", "source": "", "vocab_size": layout.sizes[i] + 1, "padding_idx": 0}
        if longest > 1 or name in of_history:
            spec |= {"type": "sequence", "max_len": longest}
            if not (are_histories_read and name in of_history):
                spec["feature_encoder"] = "layers.MaskedAveragePooling()"
        # Networks with weights of the first order do not initialise those of shared features.
        if name in of_history and are_histories_read:
            spec["share_embedding"] = of_history[name]
        feature_map.features[name] = spec
    for i in range(parts[0].numbers.shape[1]):
        feature_map.features[f"n{i}"] = {"type": "numeric", "source": ""}
    feature_map.num_fields = feature_map.get_num_fields()
    return feature_map


def _columns(part, feature_map):
    columns = {"label": torch.from_numpy(part.labels)}
    for name, spec in feature_map.features.items():
        i = int(name[1:])
        if spec["type"] == "numeric":
            columns[name] = torch.from_numpy(np.ascontiguousarray(part.numbers[:, i]))
            continue
        length = spec.get("max_len", 1)
        cells = np.zeros((len(part.labels), length), np.int64)  # 0 is padding, before the ids.
        for row, ids in enumerate(part.ids[i]):
            ids = ids[-length:]
            if ids:
                cells[row, length - len(ids) :] = ids
        columns[name] = torch.from_numpy(cells if "max_len" in spec else cells[:, 0])
    return columns
