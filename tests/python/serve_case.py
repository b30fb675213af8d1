"""The versions of a model's folder."""

import shutil
import time

from hosted import Net, click_files, expect, loss_of, raises, simurgh, skip, torch

import pathlib

try:
    import polars
except ImportError:
    skip("polars is missing")


def until(holds, what, patience=60):
    """Waits until holds() is true."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            return expect(False, f"not in {patience} s: {what}")
        time.sleep(0.02)


def train(folder, *overrides):
    """Trains a hosted network, with a checkpoint after 10 steps each; every second one is a delta."""
    path = click_files()
    settings = [f"checkpoint.directory={folder}", "checkpoint.every_steps=10", "checkpoint.full_every=2",
                "checkpoint.keep=10", *overrides]
    with simurgh.torch.Worker(path, overrides=settings, log_level="warn") as worker:
        net = Net(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 1e-2)
        worker.track(net=net, optimizer=optimizer)
        for batch in worker:
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            loss_of(logits, batch).backward()
            optimizer.step()
            worker.finish(batch, logits)


# The list has deltas, the version in use, the pin and what is damaged.
def check_versions():
    model = simurgh.Model("hosted-model")
    found = model.versions()
    expect([one.step for one in found] == [10, 20, 30, 40], f"the steps: {found}")
    expect([one.parent for one in found] == [None, 10, None, 30], f"the parents of deltas: {found}")
    expect([one.used for one in found] == [False, False, False, True], f"the version in use: {found}")
    expect(all(one.seconds > 1.7e9 and one.problem is None and not one.pinned for one in found), f"the rest: {found}")
    pathlib.Path("hosted-model/pin").write_text("step-20\n")
    expect([one.pinned for one in model.versions()] == [False, True, False, False], "the pin")
    pathlib.Path("hosted-model/pin").unlink()
    shutil.copytree("hosted-model", "damaged-model")
    older = simurgh.Model("damaged-model", version=30)
    expect([one.used for one in older.versions()] == [False, False, True, False], "a version that was chosen")
    manifest = pathlib.Path("damaged-model/step-40/manifest.json")
    manifest.write_text(manifest.read_text()[:-100])
    problem = older.versions()[-1].problem
    expect(problem is not None and "manifest.json" in problem, f"a damaged manifest: {problem}")
    shutil.rmtree("damaged-model")
    raises(simurgh.InvalidError, older.versions, "damaged-model")


# A follower tells why it does not use the newest version.
def check_refused():
    shutil.copytree("hosted-model", "refused-model")
    folder = pathlib.Path("refused-model")
    (folder / "step-40").rename("step-40")
    (folder / "latest").write_text("step-30\n")
    with simurgh.Model(folder, follow=True, log_level="error") as model:
        rows = next(pathlib.Path("step-40/rows/user").iterdir())
        rows.write_bytes(rows.read_bytes()[:-8])
        pathlib.Path("step-40").rename(folder / "step-40")
        (folder / "latest").write_text("step-40\n")
        until(lambda: model.versions()[-1].problem is not None, "the version is refused")
        found = model.versions()
        expect(str(rows.name) in found[-1].problem and found[-2].used, f"the refused version: {found}")


train("hosted-model")
check_versions()
check_refused()
