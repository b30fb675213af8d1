#!/usr/bin/env python3
"""Measures the steps of bench_nn_cuda in PyTorch on the same device.

The networks are the same, on random data: forward, backward down to the gradient of the embeddings,
and fused Adam. Each step runs in four ways: eager, compiled (torch.compile), graphs (a CUDA graph
of the whole step) and graphs of compiled. Precisions: f32, tf32 for matrix products, bf16 (autocast,
f32 weights) and f16 (likewise, with GradScaler). compute_ms is the time with the batch on the
device; ms adds copies of the batch from pinned memory and of the embeddings' gradient back.

Prints one JSON object per line. With --beside FILE, the output of bench_nn_cuda --json on this
device, a table compares the best of the four ways with ours by samples per second.
"""

import argparse
import contextlib
import json
import statistics
import sys

SKIPPED = 77
DENSE, FEATURES = 13, 26


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="paper,dlrm,dcn")
    parser.add_argument("--batch", default="512,2048,8192,16384,65536")
    parser.add_argument("--precision", default="f32,tf32,bf16")
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--beside", help="file with the output of bench_nn_cuda --json")
    return parser.parse_args()


def chain(torch, width, outputs, last_relu):
    layers = []
    for i, output in enumerate(outputs):
        layers.append(torch.nn.Linear(width, output))
        if last_relu or i + 1 < len(outputs):
            layers.append(torch.nn.ReLU())
        width = output
    return torch.nn.Sequential(*layers)


def network_of(torch, name):
    """Returns the module, which takes dense columns and embeddings, and the embeddings' width."""

    class Paper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.top = chain(torch, DENSE + FEATURES * 16, [4096, 2048, 1024, 512, 256, 1], False)

        def forward(self, dense, embeddings):
            return self.top(torch.cat([dense, embeddings], 1)).squeeze(1)

    class Dlrm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            vectors = FEATURES + 1
            self.bottom = chain(torch, DENSE, [512, 256, 128], True)
            self.top = chain(torch, 128 + vectors * (vectors - 1) // 2, [1024, 1024, 512, 256, 1], False)
            self.register_buffer("rows", torch.tril_indices(vectors, vectors, -1)[0])
            self.register_buffer("columns", torch.tril_indices(vectors, vectors, -1)[1])

        def forward(self, dense, embeddings):
            bottom = self.bottom(dense)
            vectors = torch.cat([bottom, embeddings.to(bottom.dtype)], 1).view(len(dense), FEATURES + 1, 128)
            pairs = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.rows, self.columns]
            return self.top(torch.cat([bottom, pairs], 1)).squeeze(1)

    class Dcn(torch.nn.Module):
        def __init__(self):
            super().__init__()
            width = DENSE + FEATURES * 16
            self.cross = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(3))
            deep = []
            for inputs, outputs in ((width, 1024), (1024, 512)):
                deep += [torch.nn.Linear(inputs, outputs), torch.nn.BatchNorm1d(outputs), torch.nn.ReLU()]
            self.deep = torch.nn.Sequential(*deep)
            self.top = torch.nn.Linear(width + 512, 1)

        def forward(self, dense, embeddings):
            origin = torch.cat([dense, embeddings], 1)
            crossed = origin
            for layer in self.cross:
                crossed = origin * layer(crossed) + crossed
            return self.top(torch.cat([crossed, self.deep(origin)], 1)).squeeze(1)

    modules = {"paper": (Paper, 16), "dlrm": (Dlrm, 128), "dcn": (Dcn, 16)}
    module, dim = modules[name]
    return module(), FEATURES * dim


class Step:
    """A network, its batch on the device and in pinned memory, and the step in one of four ways."""

    def __init__(self, torch, name, batch, precision, way):
        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.manual_seed(1)
        module, width = network_of(torch, name)
        self.model = module.cuda()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True, capturable=True)
        self.run_model = torch.compile(self.model) if "compiled" in way else self.model
        self.autocast = {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision)
        self.scaler = torch.amp.GradScaler("cuda") if precision == "f16" else None
        self.host = [torch.rand(batch, DENSE) * 2 - 1, torch.rand(batch, width) * 2 - 1, torch.rand(batch).round()]
        self.host = [tensor.pin_memory() for tensor in self.host]
        self.device = [tensor.cuda() for tensor in self.host]
        self.device[1].requires_grad_()
        self.gradient = torch.empty_like(self.host[1]).pin_memory()
        self.graph = None
        if "graphs" in way:
            self.capture()

    def compute(self):
        torch = self.torch
        dense, embeddings, labels = self.device
        self.optimizer.zero_grad(set_to_none=True)
        embeddings.grad = None
        with torch.autocast("cuda", dtype=self.autocast) if self.autocast else contextlib.nullcontext():
            logits = self.run_model(dense, embeddings)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits.float(), labels)
        if self.scaler is None:
            loss.backward()
            self.optimizer.step()
            return
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)  # Fused Adam unscales, and skips a step that is not finite.
        self.scaler.update()

    def capture(self):
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.compute()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.compute()
        self.graph = graph

    def run(self):
        self.graph.replay() if self.graph else self.compute()

    def run_with_copies(self):
        for to, source in zip(self.device, self.host):
            to.data.copy_(source, non_blocking=True)
        self.run()
        self.gradient.copy_(self.device[1].grad, non_blocking=True)

    def time(self, work, repeats):
        torch = self.torch
        taken = []
        for i in range(repeats + repeats // 4 + 3):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end))
        return statistics.median(taken[-repeats:])


WAYS = ("eager", "compiled", "graphs", "compiled graphs")


def measure(torch, flags):
    for precision in flags.precision.split(","):
        for name in flags.network.split(","):
            for batch in map(int, flags.batch.split(",")):
                for way in WAYS:
                    line = {"model": name, "batch": batch, "precision": precision, "part": "step", "peer": way}
                    try:
                        step = Step(torch, name, batch, precision, way)
                        line["compute_ms"] = round(step.time(step.run, flags.repeats), 4)
                        line["ms"] = round(step.time(step.run_with_copies, flags.repeats), 4)
                    except Exception as error:  # This PyTorch may not support every way.
                        line["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                    step = None
                    torch.cuda.empty_cache()
                    print(json.dumps(line), flush=True)
                    yield line


def print_table(ours, peers):
    best = {}
    for line in peers:
        key = (line["model"], line["batch"], line["precision"])
        if "error" not in line and (key not in best or line["compute_ms"] < best[key]["compute_ms"]):
            best[key] = line
    print(f"{'model':6} {'batch':>6} {'prec':5} {'ours, ms':>9} {'PyTorch':>9} {'ratio':>6}  best way")
    for line in ours:
        peer = best.get((line.get("model"), line.get("batch"), line.get("precision")))
        if line["part"] == "step" and peer:
            ratio = peer["compute_ms"] / line["compute_ms"]
            print(
                f"{line['model']:6} {line['batch']:6} {line['precision']:5} {line['compute_ms']:9.3f} "
                f"{peer['compute_ms']:9.3f} {ratio:6.2f}  {peer['peer']}"
            )


def main():
    flags = options()
    try:
        import torch
    except ImportError:
        print("SKIPPED: PyTorch is not installed; bench/peers/install_pytorch.sh installs it")
        sys.exit(SKIPPED)
    if not torch.cuda.is_available():
        print("SKIPPED: PyTorch finds no CUDA device")
        sys.exit(SKIPPED)
    lines = list(measure(torch, flags))
    if flags.beside:
        with open(flags.beside, encoding="utf-8") as file:
            print_table([json.loads(line) for line in file if line.startswith("{")], lines)


if __name__ == "__main__":
    main()
