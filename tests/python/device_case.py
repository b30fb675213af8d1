"""Batches on a device: their copies go through pinned memory on another stream, and training gives the numbers of the CPU.

Without a CUDA device the copies are recorded instead of made. With one, as scripts/gpu_check.sh runs it, a training on the
device is compared with one on the CPU.
"""

import contextlib
import unittest.mock

from hosted import Net, click_files, expect, loss_of, torch

import simurgh.torch


class Device:
    """Stands for torch.cuda: notes the calls, in order."""

    def __init__(self):
        self.calls = []

    def patches(self):
        calls = self.calls
        current = unittest.mock.Mock()
        current.wait_stream = lambda stream: calls.append(("wait", stream))
        real_to = torch.Tensor.to

        @contextlib.contextmanager
        def in_stream(stream):
            calls.append(("enter", stream))
            yield
            calls.append(("leave", stream))

        def to(tensor, device, *rest, **named):
            if getattr(device, "type", None) != "cuda":
                return real_to(tensor, device, *rest, **named)
            calls.append(("copy", named.get("non_blocking")))
            return tensor.clone()

        def pin(tensor):
            calls.append(("pin",))
            return tensor

        return [
            unittest.mock.patch.object(torch.cuda, "Stream", lambda index: f"stream {index}"),
            unittest.mock.patch.object(torch.cuda, "stream", in_stream),
            unittest.mock.patch.object(torch.cuda, "current_stream", lambda device=None: current),
            unittest.mock.patch.object(torch.cuda, "current_device", lambda: 0),
            unittest.mock.patch.object(torch.Tensor, "to", to),
            unittest.mock.patch.object(torch.Tensor, "pin_memory", pin),
            unittest.mock.patch.object(torch.Tensor, "record_stream", lambda tensor, stream: calls.append(("record",))),
        ]


def train(path, device):
    """Trains for some steps. Returns the losses and the result."""
    losses = []
    with simurgh.torch.Worker(path, overrides=["training.max_steps=30"], log_level="warn") as worker:
        net = Net(worker.inputs).eval().to(device)  # Dropout has other random numbers on a device.
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        worker.track(net=net, optimizer=optimizer)
        for batch in worker:
            batch = batch.to(device)
            logits = net(batch.dense, batch.embeddings)
            loss = loss_of(logits, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            worker.finish(batch, logits)
    return losses, worker.result


def check_copies(path):
    device = Device()
    with contextlib.ExitStack() as stack:
        for patch in device.patches():
            stack.enter_context(patch)
        simurgh.torch._Move._streams.clear()
        recorded = train_recorded(path)
    simurgh.torch._Move._streams.clear()
    calls = device.calls
    copies = [i for i, call in enumerate(calls) if call[0] == "copy"]
    expect(len(copies) == 3, f"dense, embeddings and labels are copied once each: {calls}")
    for i in copies:
        expect(calls[i] == ("copy", True), f"the copy does not block: {calls[i]}")
        expect(calls[i - 2] == ("pin",) and calls[i - 1][0] == "enter" and calls[i + 1][0] == "leave",
               f"the copy is of pinned memory, on the stream: {calls[i - 2 : i + 2]}")
        expect(calls[i + 2] == ("record",), f"the stream that reads it is noted: {calls}")
    expect(calls[-1] == ("wait", "stream 0"), f"the reader waits for the copies: {calls[-1]}")
    expect(recorded, "gradients of the copy are pushed")


def train_recorded(path):
    """Trains one step with batches on the recorded device. Returns whether finish takes the copy's gradients."""
    with simurgh.torch.Worker(path, overrides=["training.max_steps=1", "data.test=[]"], log_level="warn") as worker:
        net = Net(worker.inputs)
        worker.track(net=net)
        pushed = False
        for batch in worker:
            moved = batch.to("cuda")
            logits = net(moved.dense, moved.embeddings)
            loss_of(logits, moved).backward()
            expect(batch.joined.grad is None and moved.joined.grad is not None, "the copy is the leaf")
            worker.finish(moved, logits)
            pushed = True
    return pushed


path = click_files()
check_copies(path)
if torch.cuda.is_available():
    on_host, host_result = train(path, "cpu")
    on_device, device_result = train(path, "cuda")
    far = max(abs(a - b) for a, b in zip(on_host, on_device))
    expect(far < 1e-3, f"losses on the device differ by {far}")
    expect(abs(host_result["test_auc"] - device_result["test_auc"]) < 2e-3, f"{host_result} {device_result}")
    print(f"losses of the CPU and of {torch.cuda.get_device_name()} differ by at most {far:.2g}")
else:
    print("no CUDA device: copies were recorded, no training ran on one")
