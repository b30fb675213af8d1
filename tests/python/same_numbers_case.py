"""The built-in networks as PyTorch modules, with the same initial weights, give the same numbers in mode sync.

The light network without and with batch norm, DeepFM and DLRM of the examples train for 200 steps, with sgd and adam.
After each step both evaluate the same rows. At the end both evaluate the test file.

Rounding changes the side of 0 on which a relu's input is. Weights that differ by 1e-7 then give losses that differ by
1e-3 after 100 steps with batch norm, also between two versions of PyTorch. The light network has gelu
here where that matters. With adam, batch norm and gradients that are 0 but for rounding, epsilon is greater, and the
module computes in float64.
"""

import ctypes

from hosted import *

from torch import nn

STEPS = 200


def linears(*widths, activation=nn.ReLU):
    """Linear layers with an activation between two of them."""
    pairs = list(zip(widths, widths[1:]))
    layers = [layer for pair in pairs for layer in (nn.Linear(*pair), activation())]
    return nn.Sequential(*layers[:-1])


class Light(nn.Module):
    def __init__(self, inputs, has_norm, activation=nn.ReLU):
        super().__init__()

        def tower(columns, width):
            norm = nn.BatchNorm1d(width) if has_norm else nn.Identity()
            return nn.Sequential(nn.Linear(columns, width), norm, activation())

        self.bottom = tower(inputs.dense_width, 16)
        self.sparse = tower(inputs.embedding_width, 128)
        self.top = linears(144, 128, 64, 1, activation=activation)
        self.tensors = {"bottom.1": self.bottom[0], "sparse.1": self.sparse[0], "top.1": self.top[0],
                        "top.3": self.top[2], "top.5": self.top[4]}
        if has_norm:
            self.tensors.update({"bottom.2": self.bottom[1], "sparse.2": self.sparse[1]})

    def forward(self, dense, embeddings):
        joined = torch.cat(list(embeddings.values()), 1)
        return self.top(torch.cat([self.bottom(dense), self.sparse(joined)], 1))


class DeepFM(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        dim = max(inputs.dims.values())
        self.first = [name for name, one in inputs.dims.items() if one == 1]
        self.vectors = [name for name, one in inputs.dims.items() if one == dim]
        self.numbers = nn.Linear(inputs.dense_width, 1)
        self.deep = linears(inputs.dense_width + dim * len(self.vectors), 64, 32, 1)
        self.tensors = {"deep.1": self.deep[0], "deep.3": self.deep[2], "deep.5": self.deep[4], "numbers.1": self.numbers}

    def forward(self, dense, embeddings):
        first = torch.cat([embeddings[name] for name in self.first], 1).sum(1, keepdim=True)
        vectors = torch.stack([embeddings[name] for name in self.vectors], 1)
        second = 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1, keepdim=True)
        return first + second + self.deep(torch.cat([dense, vectors.flatten(1)], 1)) + self.numbers(dense)


class Dlrm(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        dim = inputs.features[0].dim
        vectors = 1 + len(inputs.features)
        self.bottom = nn.Sequential(*linears(inputs.dense_width, 32, dim), nn.ReLU())
        self.top = linears(dim + vectors * (vectors - 1) // 2, 64, 32, 1)
        self.tensors = {"bottom.1": self.bottom[0], "bottom.3": self.bottom[2], "top.1": self.top[0],
                        "top.3": self.top[2], "top.5": self.top[4]}

    def forward(self, dense, embeddings):
        bottom = self.bottom(dense)
        vectors = torch.stack([bottom, *embeddings.values()], 1)
        rows, columns = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        products = (vectors @ vectors.transpose(1, 2))[:, rows, columns]
        return self.top(torch.cat([bottom, products], 1))


def initial_weights(net):
    """The weights by the names of the built-in network. Those of its linear layers are (inputs, outputs)."""
    found = {}
    for name, layer in net.tensors.items():
        weight, bias = (part.detach().numpy() for part in (layer.weight, layer.bias))
        if isinstance(layer, nn.Linear):
            found.update({f"{name}.weight": weight.T, f"{name}.bias": bias})
        else:
            mean, variance = layer.running_mean.numpy(), layer.running_var.numpy()
            found.update({f"{name}.scale": weight, f"{name}.shift": bias, f"{name}.running_mean": mean,
                          f"{name}.running_variance": variance})
    return found


def validation_rows():
    """Writes the first 128 rows of the test file."""
    packed = (ROOT / "config/data/adult/adult.test.csv.zst").read_bytes()
    text = ctypes.create_string_buffer(1 << 22)
    zstd = ctypes.CDLL("libzstd.so.1")
    zstd.ZSTD_decompress.restype = ctypes.c_size_t
    zstd.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    zstd.ZSTD_decompress(text, len(text), packed, len(packed))
    pathlib.Path("validation.csv").write_bytes(b"\n".join(text.value.split(b"\n")[:128]) + b"\n")


def curve(text):
    """The AUCs and the losses of a log's evaluations."""
    found = re.findall(r"(?:validated|evaluated): .* auc=(\S+) log_loss=(\S+)", text)
    return np.array(found, float).reshape(-1, 2).T


def compare(config, optimizer, make_net, dtype=torch.float32, edit=lambda yaml: yaml, epsilon=1e-8):
    name = f"{config} {make_net.__name__} {optimizer} {str(dtype).removeprefix('torch.')}"
    make_optimizer, formula = {
        "sgd": (lambda weights: torch.optim.SGD(weights, 0.05), "{kind: sgd, learning_rate: 0.05}"),
        "adam": (lambda weights: torch.optim.Adam(weights, 0.001, eps=epsilon),
                 f"{{kind: adam, learning_rate: 0.001, epsilon: {epsilon:.8f}}}")}[optimizer]
    settings = ["training.mode=sync", f"training.max_steps={STEPS}", "training.evaluate_every_steps=1",
                "training.early_stopping.patience=0", "checkpoint.keep_best=0", "data.validation=[validation.csv]",
                "training.calibration=none"]
    losses = []
    with log() as path, simurgh.torch.Worker(
            example(config, model=False), overrides=[*settings, "checkpoint.directory=hosted"]) as worker:
        torch.manual_seed(1)
        net = make_net(worker.inputs)
        write_tensors("initial.safetensors", initial_weights(net))
        net.to(dtype)
        steps = make_optimizer(net.parameters())

        def forward(batch):
            return net(batch.dense.to(dtype), {name: one.to(dtype) for name, one in batch.embeddings.items()})

        worker.track(forward, net=net, optimizer=steps)
        for batch in worker:
            logits = forward(batch)
            loss = nn.functional.binary_cross_entropy_with_logits(logits[:, 0], batch.labels.to(dtype))
            steps.zero_grad()
            loss.backward()
            steps.step()
            losses.append(loss.item())
            worker.finish(batch, logits)
    hosted = curve(path.read_text())
    result = worker.result

    yaml = pathlib.Path(example(config, model=True))
    yaml.write_text(edit(yaml.read_text()))
    settings += ["model.initial_weights=initial.safetensors", "checkpoint.directory=built-in",
                 f"training.dense_optimizer={formula}"]
    done = program("nn-worker", "--config", str(yaml), "--standalone", *(f"--set={one}" for one in settings))
    built_in = curve(done.err)

    expect(len(losses) == STEPS, f"{name}: {len(losses)} steps")
    expect(hosted.shape == built_in.shape and hosted.shape[1] >= STEPS,
           f"{name}: evaluations {hosted.shape} and {built_in.shape}")
    if hosted.shape != built_in.shape:
        return
    aucs, differences = np.abs(hosted - built_in)
    print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, validation {hosted[1][0]:.4f} to {hosted[1][STEPS - 1]:.4f}; "
          f"greatest difference of {len(differences)} losses {differences.max():.1e}, of AUCs {aucs.max():.1e}; "
          f"test AUC {hosted[0][-1]:.6f} and {built_in[0][-1]:.6f}", flush=True)
    expect(differences.max() <= 1e-5, f"{name}: losses differ by {differences.max():.2e}, first at evaluation "
                                      f"{int((differences > 1e-5).argmax())}")
    expect(aucs[-1] <= 1e-4 and result["test_auc"] > 0.8, f"{name}: test AUCs {hosted[0][-1]} and {built_in[0][-1]}")
    for table, arrays in rows_of(checkpoint("hosted")).items():
        others = rows_of(checkpoint("built-in"))[table]
        expect(np.array_equal(arrays["id"], others["id"]), f"{name}: ids of {table} are equal")
        difference = np.abs(arrays["weights"] - others["weights"]).max()
        expect(difference <= 1e-4, f"{name}: rows of {table} differ by {difference:.2e}")
    for folder in ("hosted", "built-in"):
        shutil.rmtree(folder)


def light(activation, has_norm):
    def make(inputs):
        return Light(inputs, has_norm, {"relu": nn.ReLU, "gelu": lambda: nn.GELU(approximate="tanh")}[activation])

    make.__name__ = f"{activation}{' with batch norm' if has_norm else ''}"
    return make


def without_norm(yaml):
    return yaml.replace("batch_norm, ", "")


def with_gelu(yaml):
    return yaml.replace("relu", "gelu")


def with_gelu_without_norm(yaml):
    return with_gelu(without_norm(yaml))


validation_rows()
compare("adult", "sgd", light("relu", False), edit=without_norm)
compare("adult", "adam", light("gelu", False), edit=with_gelu_without_norm)
compare("adult", "sgd", light("gelu", True), edit=with_gelu)
compare("adult", "adam", light("gelu", True), torch.float64, edit=with_gelu, epsilon=1e-3)
compare("adult-deepfm", "adam", DeepFM)
compare("adult-dlrm", "adam", Dlrm)
