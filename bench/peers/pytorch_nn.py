#!/usr/bin/env python3
"""Measures the steps of bench_nn_cuda in PyTorch on the same device.

The networks are the same, on random data: forward, backward down to the gradient of the embeddings,
and fused Adam. Each step runs in four ways: eager, graphs (a CUDA graph of the whole step), compiled
(torch.compile) and graphs of compiled. Precisions: f32, tf32 for matrix products, bf16 (autocast,
f32 weights) and f16 (likewise, with GradScaler). compute_ms is the time with the batch on the
device. ms adds copies of the next batch from pinned memory and of the last embeddings' gradient
back, each on its own stream. Both are times of many steps in a row over their number: the median of
five rows.

Prints one JSON object per line.
"""

import argparse
import contextlib
import itertools
import json
import statistics
import sys

SKIPPED = 77
DENSE, FEATURES = 13, 26
WAYS = ("eager", "graphs", "compiled", "compiled graphs")
ROWS = 5


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--network", default="light,paper,dlrm,dcn")
    parser.add_argument("--batch", default="512,4096,16384,65536")
    parser.add_argument("--precision", default="f32,tf32,bf16")
    parser.add_argument("--repeats", type=int, default=50, help="steps in a row")
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

    class Tower(torch.nn.Module):
        def __init__(self, *widths):
            super().__init__()
            self.top = chain(torch, DENSE + FEATURES * 16, [*widths, 1], False)

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

    if name == "dlrm":
        return Dlrm(), FEATURES * 128
    if name == "dcn":
        return Dcn(), FEATURES * 16
    widths = {"light": (256, 128, 64), "paper": (4096, 2048, 1024, 512, 256)}
    return Tower(*widths[name]), FEATURES * 16


class Slot:
    """A batch on the device, and its copies on their way."""

    def __init__(self, torch, host):
        self.batch = [tensor.cuda() for tensor in host]
        self.batch[1].requires_grad_()
        self.gradient = torch.empty_like(host[1]).pin_memory()
        self.copied_in, self.computed, self.copied_out = (torch.cuda.Event() for _ in range(3))
        self.graph = None


class Training:
    """A network whose steps take turns with two batches."""

    def __init__(self, torch, name, batch, precision):
        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.manual_seed(1)
        module, width = network_of(torch, name)
        self.model = module.cuda()
        self.compiled = torch.compile(self.model, dynamic=False)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, fused=True, capturable=True)
        self.autocast = {"bf16": torch.bfloat16, "f16": torch.float16}.get(precision)
        self.scaler = torch.amp.GradScaler("cuda") if precision == "f16" else None
        self.host = [torch.rand(batch, DENSE) * 2 - 1, torch.rand(batch, width) * 2 - 1, torch.rand(batch).round()]
        self.host = [tensor.pin_memory() for tensor in self.host]
        self.slots = [Slot(torch, self.host) for _ in range(2)]
        self.copy_in, self.copy_out = torch.cuda.Stream(), torch.cuda.Stream()

    def choose(self, way):
        torch = self.torch
        self.run_model = self.compiled if "compiled" in way else self.model
        for slot in self.slots:
            slot.graph = None
            if "graphs" not in way:
                continue
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.compute(slot)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self.compute(slot)
            slot.graph = graph

    def compute(self, slot):
        torch = self.torch
        dense, embeddings, labels = slot.batch
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

    def step(self, number):
        slot = self.slots[number % 2]
        slot.graph.replay() if slot.graph else self.compute(slot)

    def step_with_copies(self, number):
        torch = self.torch
        slot, following = self.slots[number % 2], self.slots[(number + 1) % 2]
        with torch.cuda.stream(self.copy_in):
            following.computed.wait()
            for to, source in zip(following.batch, self.host):
                to.data.copy_(source, non_blocking=True)
            following.copied_in.record()
        slot.copied_in.wait()
        slot.copied_out.wait()
        self.step(number)
        slot.computed.record()
        gradient = slot.batch[1].grad
        with torch.cuda.stream(self.copy_out):
            slot.computed.wait()
            slot.gradient.copy_(gradient, non_blocking=True)
            slot.copied_out.record()
        if slot.graph is None:
            gradient.record_stream(self.copy_out)  # The next step frees it.

    def time(self, step, repeats):
        torch = self.torch
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(ROWS + 2)]
        numbers = itertools.count()
        for mark in marks:  # Without waits between rows; the first one warms up.
            mark.record()
            if mark is not marks[-1]:
                for _ in range(repeats):
                    step(next(numbers))
        torch.cuda.synchronize()
        return statistics.median(a.elapsed_time(b) / repeats for a, b in itertools.pairwise(marks[1:]))


def measure(torch, flags):
    for precision in flags.precision.split(","):
        for name in flags.network.split(","):
            for batch in map(int, flags.batch.split(",")):
                torch._dynamo.reset()
                training = Training(torch, name, batch, precision)
                for way in WAYS:
                    line = {"model": name, "batch": batch, "precision": precision, "part": "step", "peer": way}
                    try:
                        training.choose(way)
                        line["compute_ms"] = round(training.time(training.step, flags.repeats), 4)
                        line["ms"] = round(training.time(training.step_with_copies, flags.repeats), 4)
                    except Exception as error:  # This PyTorch may not support every way.
                        line["error"] = f"{type(error).__name__}: {error}".splitlines()[0][:200]
                    print(json.dumps(line), flush=True)
                training = None
                torch.cuda.empty_cache()


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
    versions = {"part": "versions", "pytorch": torch.__version__, "cuda": torch.version.cuda}
    print(json.dumps(versions), flush=True)
    measure(torch, flags)


if __name__ == "__main__":
    main()
