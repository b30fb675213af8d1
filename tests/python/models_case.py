"""Networks of FuxiCTR and TorchRec train on the cluster as well as with embeddings of their own.

Usage: models_case.py [--models NAME,...] [--seeds N] [--modes NAME,...] [--rows equal|drawn]
                      [--optimizer adagrad|torch-adagrad|adam] [--movies FOLDER] [--criteo FOLDER] [--zoo FOLDER]

DCNv2, FinalMLP, MaskNet and DIN of FuxiCTR, and DLRM and DeepFM of TorchRec, are unmodified but for their embeddings.
In their own training these are nn.Embedding and EmbeddingBagCollection, and PyTorch's optimizers train them. On the
cluster they are batch.embeddings. Both begin with the same dense weights and read the same batches in the same order.
Prints the test AUCs, and expects that their means over the seeds differ by 0.002 at most.

--models: NETWORK/DATA, where DATA is movies or criteo. --rows: the first rows on the cluster are those of the network's
own training, or drawn from the same distribution. --optimizer: of rows. With torch-adagrad, PyTorch's formula stands
beside the table's, which differs. --modes: default, sync, staleness-4. --movies, --criteo: folders with train and test
files in place of generated ones. --zoo: a checkout of FuxiCTR, for its MaskNet, which its package lacks; without it,
MaskNet is composed of the package's layers. bench/peers/install_pytorch.sh --models installs the packages.

Rounding decides on which side of 0 the input of a relu is. Two trainings of PyTorch alone whose first rows differ by
1e-7 can end with AUCs that differ by 0.001.
"""

import argparse
import os
import pathlib
import sys

PEERS = pathlib.Path(__file__).resolve().parents[2] / "build/peers/models/bin/python"
if __name__ == "__main__" and PEERS.exists() and pathlib.Path(sys.executable) != PEERS:
    os.execv(PEERS, [str(PEERS), "-B", *sys.argv])
FOLDER = os.getcwd()

from hosted import *  # noqa: E402

from case import cluster_yaml  # noqa: E402
from collections import OrderedDict  # noqa: E402
import concurrent.futures  # noqa: E402
import csv  # noqa: E402
import importlib.util  # noqa: E402

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

DIM = 8
BATCH = 128
PLACES = 8  # Items of a history.
STDDEV = 0.1  # Of first rows.
RATE, ACCUMULATOR, EPSILON = 0.05, 0.001, 1e-10  # Adagrad of rows.
ADAM_RATE = 0.001
DENSE_RATES = {"movies": 0.003, "criteo": 0.002}  # Adam of dense weights.
EPOCHS = {"movies": 2, "criteo": 2}
MODELS = ("DCNv2/movies", "DIN/movies", "FinalMLP/movies", "MaskNet/movies", "DLRM/criteo", "DeepFM/criteo")
FUXICTR = ("DCNv2", "DIN", "FinalMLP", "MaskNet")


class Layout:
    """Names of the columns of a data set. `target` is the feature that histories are compared with."""

    def __init__(self, dense, ids, target, has_history):
        self.dense, self.ids, self.target, self.has_history = dense, ids, target, has_history
        self.ids.sort(key=lambda name: name == target)  # The target is the last one.


def layout_of(data, folder):
    if data == "criteo":
        return Layout([f"I{i}" for i in range(1, 14)], [f"C{i}" for i in range(1, 27)], "C1", False)
    with open(f"{folder}/train.csv") as file:
        names = next(csv.reader(file))
    return Layout([name for name in names if name == "age"],
                  [name for name in names if name not in ("clicked", "age", "history")], "item", "history" in names)


# --- The networks. A call takes numbers (B, dense columns); by feature, ids or embeddings; and the history's mask.
class Network:
    """What the networks have in common. ends_with_sigmoid: they return probabilities."""

    ends_with_sigmoid = True

    def loss(self, outputs, labels):
        kind = "binary_cross_entropy" if self.ends_with_sigmoid else "binary_cross_entropy_with_logits"
        return getattr(functional, kind)(outputs, labels)

    def logits(self, outputs):
        return torch.logit(outputs, 1e-7) if self.ends_with_sigmoid else outputs


class Given(nn.Module):
    """Takes the place of FuxiCTR's embeddings: its inputs are rows already. Columns of numbers keep their layers."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = nn.ModuleDict(numbers)

    def forward(self, inputs, flatten_emb=False):
        parts = [self.numbers[name](one.view(-1, 1)) if name in self.numbers else one for name, one in inputs.items()]
        return torch.cat(parts, -1) if flatten_emb else torch.stack(parts, 1)


class MaskNet(nn.Module):
    """The serial network of Wang et al., "MaskNet", DLP-KDD 2021, of FuxiCTR's layers."""

    def __init__(self, feature_map, model_id=None, embedding_dim=DIM, dnn_hidden_units=(), **_options):
        from fuxictr.pytorch.layers import FeatureEmbedding, MLP_Block
        super().__init__()
        width = feature_map.num_fields * embedding_dim
        widths = [width, *dnn_hidden_units]
        self.embedding_layer = FeatureEmbedding(feature_map, embedding_dim)
        self.norms = nn.ModuleList(nn.LayerNorm(embedding_dim) for _ in range(feature_map.num_fields))
        self.masks = nn.ModuleList(MLP_Block(width, [inputs], output_dim=inputs) for inputs in widths[:-1])
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(inputs, outputs, bias=False), nn.LayerNorm(outputs), nn.ReLU())
            for inputs, outputs in zip(widths, widths[1:]))
        self.last = nn.Sequential(nn.Linear(widths[-1], 1), nn.Sigmoid())

    def forward(self, inputs):
        rows = self.embedding_layer(inputs)
        hidden = torch.stack([norm(one) for norm, one in zip(self.norms, rows.unbind(1))], 1).flatten(1)
        for mask, block in zip(self.masks, self.blocks):
            hidden = block(mask(rows.flatten(1)) * hidden)
        return {"y_pred": self.last(hidden)}


def class_of(name, zoo):
    if name == "MaskNet" and zoo is None:
        return MaskNet
    if name == "MaskNet":
        spec = importlib.util.spec_from_file_location("masknet", f"{zoo}/model_zoo/MaskNet/src/MaskNet.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module.MaskNet
    return getattr(importlib.import_module(f"model_zoo.LongCTR.{name}.{name}"), name)


class FuxiCTR(Network):
    def __init__(self, name, layout, zoo, counts=None):
        """counts: distinct ids by feature, for embeddings of its own. None: those of the cluster."""
        from fuxictr.pytorch.layers import FeatureEmbedding, MaskedAveragePooling
        self.layout = layout
        self.pools = name == "MaskNet"  # The others pool the history themselves.
        options = {"DCNv2": dict(parallel_dnn_hidden_units=[64, 32], num_cross_layers=2),
                   "DIN": dict(dnn_hidden_units=[64, 32], attention_hidden_units=[16]),
                   "FinalMLP": dict(mlp1_hidden_units=[64, 32], mlp2_hidden_units=[32, 32], use_fs=False, num_heads=2),
                   "MaskNet": dict(dnn_hidden_units=[64, 32])}[name]
        self.net = class_of(name, zoo)(
            self.features({}), model_id=name, embedding_dim=DIM, optimizer="adam", loss="binary_crossentropy",
            verbose=0, model_root=".", metrics=["AUC"], **options)
        layers = self.net.embedding_layer.embedding_layer.embedding_layers
        numbers = {name: layers[name] for name in layout.dense}
        self.pool = MaskedAveragePooling()
        if counts is None:
            self.net.embedding_layer = Given(numbers)
        else:
            initializer = f"partial(nn.init.normal_, std={STDDEV})"
            self.net.embedding_layer = FeatureEmbedding(self.features(counts), DIM, embedding_initializer=initializer)
            self.net.embedding_layer.embedding_layer.embedding_layers.update(numbers)

    def features(self, counts):
        from fuxictr.features import FeatureMap
        found = FeatureMap("data", ".")
        found.labels = ["clicked"]
        found.default_emb_dim = DIM
        for name in self.layout.dense:
            found.features[name] = {"type": "numeric", "source": ""}
        for name in self.layout.ids:
            found.features[name] = {"type": "categorical", "vocab_size": counts.get(name, 0) + 1, "padding_idx": 0,
                                    "source": "item" if name == self.layout.target and not self.pools else ""}
        if self.pools and self.layout.has_history:
            found.features["history"] = {
                "type": "sequence", "vocab_size": counts.get(self.layout.target, 0) + 1, "padding_idx": 0, "source": "",
                "share_embedding": self.layout.target, "feature_encoder": "layers.MaskedAveragePooling()"}
        found.num_fields = found.get_num_fields()
        return found

    def __call__(self, dense, inputs, mask):
        target = inputs[self.layout.target]
        history = inputs.get("history", target[:, None][:, :0])
        fields = OrderedDict((name, dense[:, i]) for i, name in enumerate(self.layout.dense))
        fields.update((name, inputs[name]) for name in self.layout.ids)
        if self.pools:
            if "history" in inputs:
                fields["history"] = self.pool(history, mask) if history.dim() == 3 else history
            found = self.net(fields)
        else:
            del fields[self.layout.target]
            items = torch.cat([history, target[:, None]], 1)
            if items.dim() == 2:  # Ids: those of all samples after one another.
                items = items.flatten()
            mask = torch.zeros(len(dense), 0) if mask is None else mask
            found = self.net((fields, {self.layout.target: items}, mask))
        return found["y_pred"][:, 0]

    def rows(self):
        """The weights of nn.Embedding, by table."""
        layers = self.net.embedding_layer.embedding_layer.embedding_layers
        return {name: layers[name].weight for name in self.layout.ids}


class TorchRec(Network):
    def __init__(self, name, layout, _zoo, counts=None):
        from torchrec.models import deepfm, dlrm
        self.layout, self.name = layout, name
        self.ends_with_sigmoid = name == "DeepFM"
        self.features = [*layout.ids, *(["history"] if layout.has_history else [])]
        if name == "DLRM":
            self.net = dlrm.DLRM(self.collection({}), len(layout.dense), [32, DIM], [64, 32, 1])
        else:
            self.net = deepfm.SimpleDeepFMNN(len(layout.dense), self.collection({}), 32, 32)
        if counts is None:
            self.net.sparse_arch = nn.Identity()
        else:
            self.net.sparse_arch = (dlrm if name == "DLRM" else deepfm).SparseArch(self.collection(counts))

    def collection(self, counts):
        from torchrec.modules.embedding_configs import EmbeddingBagConfig, PoolingType
        from torchrec.modules.embedding_modules import EmbeddingBagCollection
        shared = {self.layout.target: [self.layout.target, "history"]} if self.layout.has_history else {}
        return EmbeddingBagCollection([
            EmbeddingBagConfig(name=name, embedding_dim=DIM, num_embeddings=counts.get(name, 0) + 1,
                               feature_names=shared.get(name, [name]), pooling=PoolingType.MEAN,
                               init_fn=lambda weights: nn.init.normal_(weights, 0, STDDEV))
            for name in self.layout.ids])

    def __call__(self, dense, inputs, _mask):
        if inputs[self.features[0]].dim() == 1:
            inputs = self.jagged(inputs)
        elif self.name == "DLRM":
            inputs = torch.stack([inputs[name] for name in self.features], 1)
        return self.net(dense, inputs)[:, 0]

    def jagged(self, inputs):
        """Lists of ids, which leave out those that have no row."""
        from torchrec.sparse.jagged_tensor import KeyedJaggedTensor
        ids = [inputs[name].view(len(inputs[name]), -1) for name in self.features]
        lengths = torch.cat([(one > 0).sum(1) for one in ids])
        return KeyedJaggedTensor(self.features, torch.cat([one[one > 0] for one in ids]), lengths=lengths)

    def rows(self):
        bags = self.net.sparse_arch.embedding_bag_collection.embedding_bags
        return {name: bags[name].weight for name in self.layout.ids}


def make(model, layout, zoo, seed, counts=None):
    torch.manual_seed(seed)
    return (FuxiCTR if model in FUXICTR else TorchRec)(model, layout, zoo, counts)


# --- Their own training.
class Samples:
    """The rows of files as tensors. The ids of a table are numbered from 1; those that train.csv lacks are 0."""

    def __init__(self, data, folder, layout):
        self.base = 16 if data == "criteo" else 10
        self.numbers = {name: {"": 0} for name in layout.ids}
        self.train = self.read(data, folder, "train", layout)
        self.test = self.read(data, folder, "test", layout)
        self.counts = {name: len(numbers) - 1 for name, numbers in self.numbers.items()}

    def number(self, table, text, adds):
        numbers = self.numbers[table]
        return numbers.setdefault(text, len(numbers)) if adds else numbers.get(text, 0)

    def read(self, data, folder, part, layout):
        names = ["clicked", *layout.dense, *(f"C{i}" for i in range(1, 27))]
        if data == "criteo":
            with open(f"{folder}/{part}.tsv") as file:
                rows = [dict(zip(names, line.rstrip("\n").split("\t"))) for line in file]
        else:
            with open(f"{folder}/{part}.csv", newline="") as file:
                rows = list(csv.DictReader(file))
        dense = np.array([[float(row[name] or "nan") for name in layout.dense] for row in rows])
        if data == "criteo":
            dense = np.sign(dense) * np.log1p(np.abs(dense))
        if part == "train":
            self.mean, self.deviation = np.nanmean(dense, 0), np.nanstd(dense, 0)
        dense = np.nan_to_num((dense - self.mean) / self.deviation)
        adds = part == "train"
        inputs = {name: torch.tensor([self.number(name, row[name], adds) for row in rows]) for name in layout.ids}
        if layout.has_history:
            lists = [[self.number(layout.target, one, adds) for one in row["history"].split("|")] for row in rows]
            inputs["history"] = torch.tensor([(one + [0] * PLACES)[:PLACES] for one in lists])
        return torch.tensor(dense, dtype=torch.float32), inputs, torch.tensor([float(row["clicked"]) for row in rows])


def area(scores, labels):
    """The AUC; equal scores count half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    positives = labels.sum()
    return (ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * (len(labels) - positives))


class TableAdagrad(torch.optim.Optimizer):
    """The formula of tables: a step divides by the root of the sum before it. PyTorch's sum has the step's gradient."""

    def __init__(self, rows):
        super().__init__(rows, {})

    @torch.no_grad()
    def step(self):
        for one in self.param_groups[0]["params"]:
            squares = self.state[one].setdefault("squares", torch.full_like(one, ACCUMULATOR))
            one -= RATE * one.grad / torch.sqrt(squares + EPSILON)
            squares += one.grad**2


def write_rows(call, samples):
    """Writes the rows of a network's own embeddings as initial rows of the cluster's tables."""
    for table, weights in call.rows().items():
        known = [(int(text, samples.base), number) for text, number in samples.numbers[table].items() if text]
        ids, numbers = zip(*known)
        chosen = weights.detach().numpy()[list(numbers)]
        write_tensors(f"{table}.rows", {"id": np.array(ids, np.uint64), "weights": chosen})


def train_alone(call, data, samples, optimizer):
    rows = list(call.rows().values())
    dense = {id(one): one for one in call.net.parameters()}
    for one in rows:
        del dense[id(one)]
    sparse = {"adagrad": lambda: TableAdagrad(rows), "adam": lambda: torch.optim.Adam(rows, ADAM_RATE),
              "torch-adagrad": lambda: torch.optim.Adagrad(
                  rows, RATE, initial_accumulator_value=ACCUMULATOR, eps=EPSILON)}[optimizer]
    optimizers = [sparse(), torch.optim.Adam(dense.values(), DENSE_RATES[data])]

    def batches(part):
        dense, inputs, labels = part
        for first in range(0, len(dense), BATCH):
            places = slice(first, first + BATCH)
            batch = {name: one[places] for name, one in inputs.items()}
            mask = batch["history"] > 0 if "history" in batch else None
            yield call(dense[places], batch, mask), labels[places]

    call.net.train()
    for _ in range(EPOCHS[data]):
        for outputs, labels in batches(samples.train):
            for one in optimizers:
                one.zero_grad()
            call.loss(outputs, labels).backward()
            for one in optimizers:
                one.step()
    call.net.eval()
    with torch.no_grad():
        scores = torch.cat([call.logits(outputs) for outputs, _ in batches(samples.test)]).numpy()
    return area(scores, samples.test[2].numpy())


# --- On the cluster.
def config(model, data, folder, layout, rows, optimizer):
    ends = "tsv" if data == "criteo" else "csv"
    features = [f"{{name: {name}, hash: none}}" for name in layout.ids]
    columns = "  criteo: {fit: true}\n" if data == "criteo" else ""
    if layout.has_history:
        pooling = f"raw, max_length: {PLACES}, mask: true" if model in FUXICTR else f"mean, max_length: {PLACES}"
        features.append(f"{{name: history, table: {layout.target}, hash: none, pooling: {pooling}}}")
    if data != "criteo":
        columns = "  columns:\n    - {name: clicked, kind: label}\n"
        columns += "".join(f"    - {{name: {name}, kind: dense}}\n" for name in layout.dense)
        columns += "".join(f"    - {{name: {name}, kind: id}}\n" for name in layout.ids)
        columns += "    - {name: history, kind: id, separator: \"|\"}\n" if layout.has_history else ""
    first = f"initializer: {{kind: normal, stddev: {STDDEV}}}"
    if rows == "equal":
        first = f'initial_rows: "{os.getcwd()}/{{table}}.rows"'
    formula = f"kind: adagrad, learning_rate: {RATE}, initial_accumulator: {ACCUMULATOR}, epsilon: {EPSILON:.10f}"
    if optimizer == "adam":
        formula = f"kind: adam, learning_rate: {ADAM_RATE}, epsilon: 0.00000001, row_wise: false"
    return f"""{cluster_yaml()}tables:
  - names: [{', '.join(layout.ids)}]
    dim: {DIM}
    {first}
    optimizer: {{{formula}}}
features: [{', '.join(features)}]
data:
  format: {'criteo' if data == 'criteo' else 'csv'}
  train: ["{folder}/train.{ends}"]
  test: ["{folder}/test.{ends}"]
{columns}training: {{batch_size: {BATCH}, drop_last: false}}
"""


def run_program(model, data, folder, zoo, seed):
    """The program of `simurgh train`."""
    layout = layout_of(data, folder)
    with simurgh.torch.Worker() as worker:
        call = make(model, layout, zoo, seed)
        optimizer = torch.optim.Adam(call.net.parameters(), DENSE_RATES[data])

        def outputs_of(batch):
            return call(batch.dense, batch.embeddings, batch.masks.get("history"))

        worker.track(lambda batch: call.logits(outputs_of(batch)), net=call.net, optimizer=optimizer)
        for batch in worker:
            outputs = outputs_of(batch)
            optimizer.zero_grad()
            call.loss(outputs, batch.labels).backward()
            optimizer.step()
            worker.finish(batch, call.logits(outputs))


def train_on_cluster(model, data, folder, layout, seed, mode, given):
    path = f"models-{mode}.yaml"
    pathlib.Path(path).write_text(config(model, data, folder, layout, given.rows, given.optimizer))
    settings = [f"cluster.seed={seed}", f"training.epochs={EPOCHS[data]}"]
    settings += {"default": [], "sync": ["training.mode=sync"], "staleness-4": ["training.staleness=4"]}[mode]
    done = program("simurgh", "train", path, *(f"--set={one}" for one in settings), "--", sys.executable, "-B",
                   __file__, "program", model, data, folder, str(seed), *([given.zoo] if given.zoo else []))
    return done.value("test_auc")


# --- Data. A click is likely if the item is of the kind that the history has.
def write_movies():
    random = np.random.default_rng(1)
    users, items, kinds = 60, 40, 4
    of_user, of_item = random.normal(0, 0.5, users), random.normal(0, 0.5, items)

    def rows(count):
        user, item = random.integers(0, users, count), random.integers(0, items, count)
        age = random.integers(18, 70, count)
        city, taste = random.integers(0, 10, count), random.integers(0, kinds, count)
        item = np.where(random.random(count) < 0.3, item - item % kinds + taste, item)
        odds = 2.5 * (item % kinds == taste) - 0.8 + of_user[user] + of_item[item] + 0.02 * (age - 44) * (city % 3 - 1)
        for i in range(count):
            seen = random.integers(0, items // kinds, random.integers(1, PLACES + 1)) * kinds + taste[i]
            yield (int(random.random() < 1 / (1 + np.exp(-odds[i]))), age[i], user[i], item[i], city[i],
                   "|".join(str(one) for one in seen))

    header = ["clicked", "age", "user", "item", "city", "history"]
    write("train.csv", header, rows(30_000))
    write("test.csv", header, rows(20_000))


def write_criteo():
    for path, first, samples in (("train.tsv", 0, 20_000), ("test.tsv", 20_000, 10_000)):
        program("datagen", "--output", path, "--samples", samples, "--first", first, "--distinct-ids", 4000)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--modes", default="default")
    parser.add_argument("--rows", choices=["equal", "drawn"], default="equal")
    parser.add_argument("--optimizer", choices=["adagrad", "torch-adagrad", "adam"], default="adagrad")
    for name in ("--movies", "--criteo", "--zoo"):
        parser.add_argument(name, type=lambda path: str(pathlib.Path(FOLDER, path)))
    given = parser.parse_args()
    for package in ("fuxictr", "torchrec"):
        if importlib.util.find_spec(package) is None:
            skip(f"{package} is missing; run bench/peers/install_pytorch.sh --models")
    folders = {"movies": given.movies or os.getcwd(), "criteo": given.criteo or os.getcwd()}
    known = {}
    for name in given.models.split(","):
        model, data = name.split("/")
        if data not in known:
            if folders[data] == os.getcwd():
                {"movies": write_movies, "criteo": write_criteo}[data]()
            layout = layout_of(data, folders[data])
            known[data] = layout, Samples(data, folders[data], layout)
        layout, samples = known[data]
        found = {mode: [] for mode in ("own", *given.modes.split(","))}
        for seed in range(1, given.seeds + 1):
            call = make(model, layout, given.zoo, seed, samples.counts)
            write_rows(call, samples)
            with concurrent.futures.ThreadPoolExecutor() as others:  # A program begins with slow imports.
                running = {mode: others.submit(train_on_cluster, model, data, folders[data], layout, seed, mode, given)
                           for mode in found if mode != "own"}
                found["own"].append(train_alone(call, data, samples, given.optimizer))
                for mode, one in running.items():
                    found[mode].append(one.result())
        own = np.mean(found["own"])
        expect(own > 0.65, f"{name}: AUC {own:.4f} of its own training")
        for mode, aucs in found.items():
            difference = np.mean(aucs) - own
            print(f"{name} {mode}: auc={np.mean(aucs):.4f} difference={difference:+.4f} "
                  f"of {' '.join(f'{one:.4f}' for one in aucs)}", flush=True)
            expect(abs(difference) <= 0.002, f"{name}, {mode}: AUCs differ by {difference:.4f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["program"]:
        os.chdir(FOLDER)
        run_program(*sys.argv[2:5], sys.argv[6] if len(sys.argv) > 6 else None, int(sys.argv[5]))
    else:
        main()
