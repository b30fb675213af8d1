"""What a program tracks is in the model, exactly; the best checkpoint has the best network."""

from hosted import *


class Kept:
    """An object with a state of many types."""

    def __init__(self, state):
        self.state = state

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def train(model, objects, steps, overrides=(), each=lambda step: None, resume=None):
    """Trains until `steps` steps. Returns the worker."""
    with log(), simurgh.torch.Worker(click_files(), overrides=[f"checkpoint.directory={model}", *overrides],
                                     resume=resume) as worker:
        made = objects(worker.inputs)
        worker.track(**made)
        for batch in worker:
            logits = made["net"](batch.dense, batch.embeddings)
            made["optimizer"].zero_grad()
            loss_of(logits, batch).backward()
            made["optimizer"].step()
            each(batch.step)
            if batch.step + 1 == steps:
                worker.interrupt()
            worker.finish(batch, logits)
    return worker


def same(one, other, place="state"):
    """Expects two states to be equal, with equal types."""
    if isinstance(one, torch.Tensor):
        expect(isinstance(other, torch.Tensor) and one.dtype == other.dtype and one.shape == other.shape
               and np.array_equal(one.reshape(-1).view(torch.uint8).numpy() if one.numel() else [],
                                  other.reshape(-1).view(torch.uint8).numpy() if other.numel() else []),
               f"{place}: {one!r} and {other!r}")
    elif isinstance(one, np.ndarray):
        expect(isinstance(other, np.ndarray) and one.dtype == other.dtype and one.shape == other.shape
               and one.tobytes() == other.tobytes(), f"{place}: {one!r} and {other!r}")
    elif isinstance(one, dict):
        expect(type(other) in (dict, type(one)) and list(one) == list(other), f"{place}: {one} and {other}")
        for key in one:
            same(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, (list, tuple)):
        expect(type(one) is type(other) and len(one) == len(other), f"{place}: {one} and {other}")
        for i, (a, b) in enumerate(zip(one, other)):
            same(a, b, f"{place}.{i}")
    else:
        expect(type(one) is type(other) and (one == other or one != one), f"{place}: {one!r} and {other!r}")


torch.manual_seed(4)
STATE = {
    **{str(dtype): torch.arange(-3, 4).to(dtype) for dtype in (
        torch.bool, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
        torch.float32, torch.float64, torch.complex64, torch.complex128)},
    "large": torch.tensor([2**63 - 1, -(2**63)]),
    "nan": torch.tensor([float("nan"), float("inf"), -0.0]),
    "scalar": torch.tensor(3, dtype=torch.int64), "scalar of bf16": torch.tensor(1.5, dtype=torch.bfloat16),
    "empty": torch.zeros(0, 3), "transposed": torch.randn(3, 4).T, "numpy": np.arange(6, dtype=np.int16).reshape(2, 3),
    "numpy scalar": np.array(2.5),
    # Names that meet when they are joined by points.
    "a.b": torch.ones(1), "a": {"b": torch.zeros(2)}, "sums": torch.ones(3), "__metadata__": torch.ones(4),
    "": torch.ones(5), "Größe ✓": torch.ones(6),
    7: torch.ones(7), "7": torch.ones(8), (1, "x"): [torch.ones(9), (None, True, -1, 2**70, 0.1, float("inf"), "text")],
    "$tensor": "a text", "$items": {"$tuple": []}, "nested": {"deep": {"er": ({"x": torch.ones(2, 2)},)}},
}


def objects(inputs):
    net = Net(inputs)
    net.register_buffer("seen", torch.tensor([2**53 + 1]))
    net.register_buffer("bits", torch.randn(5).to(torch.bfloat16))
    optimizer = torch.optim.AdamW(
        [{"params": net.layers[0].parameters(), "lr": 0.01}, {"params": net.layers[1:].parameters(), "lr": 0.02}])
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)
    return {"net": net, "optimizer": optimizer, "scheduler": scheduler, "kept": Kept(STATE)}


def fresh(inputs):
    made = objects(inputs)
    with torch.no_grad():
        for weight in made["net"].parameters():
            weight += 1
    made["net"].bits.zero_()
    made["kept"].state = None
    return made


made = {}


def remember(kind):
    def make(inputs):
        made[kind] = kind_of[kind](inputs)
        return made[kind]
    kind_of = {"first": objects, "second": fresh}
    return make


worker = train("kept", remember("first"), 10)
saved = {name: one.state_dict() for name, one in made["first"].items()}
with log(), simurgh.torch.Worker("clicks.yaml", overrides=["checkpoint.directory=kept"]) as worker:
    second = fresh(worker.inputs)
    worker.track(**second)
    for name, one in second.items():
        same(saved[name], one.state_dict(), name)
print("kept:", *tensors_of(checkpoint("kept") / "program.safetensors"))

# Other names, other shapes, what cannot be saved.
with log(), simurgh.torch.Worker("clicks.yaml", overrides=["checkpoint.directory=kept"]) as worker:
    second = fresh(worker.inputs)
    del second["scheduler"]
    print(raises(simurgh.InvalidError, lambda: worker.track(**second), "scheduler", "track the same names"))
with log(), simurgh.torch.Worker("clicks.yaml", overrides=["checkpoint.directory=kept"]) as worker:
    second = fresh(worker.inputs)
    second["net"].layers[0] = torch.nn.Linear(3, 3)
    print(raises(RuntimeError, lambda: worker.track(**second), "Net", "size mismatch"))
text = raises(TypeError, lambda: train("bad", lambda inputs: {**objects(inputs), "kept": Kept({"x": {"y": object()}})}, 2),
              "kept.x.y", "object")
print(text)
expect(not list(pathlib.Path("bad").glob("step-*")), "nothing is saved")

# The best checkpoint: later steps spoil the network.
states = {}


def spoil(step):
    if step >= 20:
        with torch.no_grad():
            made["first"]["net"].layers[4].weight.zero_()
    states[step + 1] = {name: one.clone() for name, one in made["first"]["net"].state_dict().items()}


validation = ["data.validation=[later.csv]", "training.evaluate_every_steps=10", "training.early_stopping.patience=2"]
worker = train("best", remember("first"), -1, validation, spoil)
best = int(pathlib.Path("best/best").read_text().split()[0][5:])
print("best:", best, worker.result, *sorted(path.name for path in pathlib.Path("best").glob("step-*")))
expect(best in (10, 20) and max(states) == best + 20, f"the best step is {best}, and training stops after {max(states)}")
same(states[best], dict(made["first"]["net"].state_dict()), "the program has the network of the best step")
short = train("short", objects, -1, [f"training.max_steps={best}"])
expect(short.result["test_auc"] == worker.result["test_auc"], f"the test is of the best step: {short.result}")
expect(worker.result["best_step"] == best, f"{worker.result}")
