"""Without PyTorch, the package trains a logistic regression with numpy: the same model as PyTorch's, and continued exactly."""

from hosted import *

PROGRAM = """
    sys.modules["torch"] = None  # As where PyTorch is not installed.
    import numpy as np
    import simurgh

    model, stop = sys.argv[1], int(sys.argv[2])

    class Regression:
        def __init__(self, inputs):
            count = inputs.dense_width + inputs.embedding_width
            self.weights = np.linspace(-0.5, 0.5, count, dtype=np.float32)
            self.bias = np.float32(0)
            self.steps = 0

        def __call__(self, batch):
            return np.concatenate([batch.dense, batch.joined], 1) @ self.weights + self.bias

        def step(self, batch, outputs):
            derivatives = (1 / (1 + np.exp(-outputs)) - batch.labels[:, 0]) / batch.rows
            gradients = derivatives[:, None] * self.weights[batch.dense.shape[1]:]
            self.weights -= np.float32(0.05) * (derivatives @ np.concatenate([batch.dense, batch.joined], 1))
            self.bias -= np.float32(0.05) * derivatives.sum()
            self.steps += 1
            return gradients

        def save(self):
            return {"weights": self.weights, "bias": np.array(self.bias), "steps": self.steps, "names": ("w", "b")}

        def restore(self, state):
            assert state["names"] == ("w", "b") and state["bias"].shape == ()
            self.weights, self.bias, self.steps = state["weights"], np.float32(state["bias"]), state["steps"]

    with simurgh.Worker("clicks.yaml", overrides=[f"checkpoint.directory={model}"], log_level="error") as worker:
        network = Regression(worker.inputs)
        worker.track(forward=network, save=network.save, restore=network.restore, name="regression")
        for batch in worker:
            outputs = network(batch)
            gradients = network.step(batch, outputs)
            if batch.step == stop:
                worker.interrupt()
            worker.finish(batch, outputs, gradients)
    print(network.steps, worker.result.get("test_auc"))
"""


class Regression(torch.nn.Module):
    def __init__(self, inputs):
        super().__init__()
        count = inputs.dense_width + inputs.embedding_width
        self.weights = torch.nn.Parameter(torch.linspace(-0.5, 0.5, count))
        self.bias = torch.nn.Parameter(torch.zeros(()))

    def forward(self, dense, embeddings):
        return torch.cat([dense, *embeddings.values()], 1) @ self.weights + self.bias


click_files()
_, whole, _ = run(PROGRAM, "whole", "-1", bare=True)
expect(whole.startswith("40 0."), whole)
run(PROGRAM, "continued", "7", bare=True)
_, continued, _ = run(PROGRAM, "continued", "-1", bare=True)
expect(continued == whole and model_digest("continued") == model_digest("whole"), f"{continued} and {whole}")

with simurgh.torch.Worker("clicks.yaml", overrides=["checkpoint.directory=torch"], log_level="error") as worker:
    net = Regression(worker.inputs)
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    worker.track(net=net, optimizer=optimizer)
    for batch in worker:
        logits = net(batch.dense, batch.embeddings)
        optimizer.zero_grad()
        loss_of(logits, batch).backward()
        optimizer.step()
        worker.finish(batch, logits)
difference = abs(float(whole.split()[1]) - worker.result["test_auc"])
print(whole, worker.result)
expect(difference <= 1e-4, f"AUC of numpy and of PyTorch: {whole} and {worker.result}")
for table, arrays in rows_of(checkpoint("torch")).items():
    others = rows_of(checkpoint("whole"))[table]
    expect(np.array_equal(arrays["id"], others["id"]), f"{table}: equal ids")
    difference = np.abs(arrays["weights"] - others["weights"]).max()
    expect(difference <= 1e-5, f"{table}: rows of numpy and of PyTorch differ by {difference:.1e}")
