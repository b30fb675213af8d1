"""A program below `simurgh train`: loaders, and processes that are killed at random moments, do not change the model.

Usage: cluster_case.py [KILLS [SEED]]

The program, a server and the embedding worker are each killed KILLS times, by default 0. `recovery_case.py` kills them
in known steps.
"""

import random
import signal
import socket
import threading

from hosted import *

FOLDER = os.environ.get("SIMURGH_TEST_FOLDER", os.getcwd())
STEPS = 80


def kill(victim):
    """Kills the program, or a daemon with the same parent."""
    if victim == "program":
        os.kill(os.getpid(), signal.SIGKILL)
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (process / "comm").read_text().strip()
            parent = int((process / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:  # It has ended.
            continue
        if name == victim[:15] and parent == os.getppid():
            os.kill(int(process.name), signal.SIGKILL)
            return


def run_program(victim, step, delay):
    """The program of `simurgh train`. It kills a process once, after a delay in seconds from the start of a step."""
    os.chdir(FOLDER)
    with simurgh.torch.Worker() as worker:
        net = Net(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        worker.track(net=net, optimizer=optimizer)
        for batch in worker:
            if batch.step == step and not os.path.exists("killed"):
                pathlib.Path("killed").touch()
                threading.Timer(delay, kill, [victim]).start() if delay > 0 else kill(victim)
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            loss_of(logits, batch).backward()
            optimizer.step()
            worker.finish(batch, logits)
    print(worker.result)


def ports(count):
    """Free TCP ports of the loopback interface."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def train(model, victim="", step=-1, delay=0.0, overrides=("training.epochs=2",)):
    """Trains on a cluster of two servers and a worker. Returns the digest of the model, and the output."""
    pathlib.Path("killed").unlink(missing_ok=True)
    first, second, worker = ports(3)
    done = program(
        "simurgh", "train", "clicks.yaml", "--set", f"checkpoint.directory={model}", "--set", "checkpoint.every_steps=10",
        *(word for one in overrides for word in ("--set", one)), "--set", "training.mode=hybrid", "--set", "training.staleness=4",
        "--set", "training.reproducible=true", "--set",
        f'embedding_ps.instances=[{{address: "127.0.0.1:{first}"}},{{address: "127.0.0.1:{second}"}}]',
        "--set", f'embedding_worker.instances=[{{address: "127.0.0.1:{worker}"}}]', "--",
        sys.executable, "-B", str(ROOT / "tests/python/cluster_case.py"), "program", victim, str(step), str(delay),
        env={**os.environ, "SIMURGH_TEST_FOLDER": os.getcwd()})
    expect(os.path.exists("killed") == (step >= 0), f"{model}: a process was killed")
    # A pull that is repeated, because its worker was lost, counts twice in `uses`.
    return model_digest(model, ignored=["uses"]), done


def main():
    click_files()
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    moments = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    expected = train("whole")[0] if kills > 0 else ""
    for victim in ("program", "embedding-ps", "embedding-worker"):
        for i in range(kills):
            step, delay = moments.randrange(STEPS), moments.random() * 0.02
            killed, done = train(f"{victim}-{i}", victim, step, delay)
            print(f"{victim}: step {step}, delay {delay:.4f} s: {killed == expected}", flush=True)
            expect(killed == expected, f"{victim} killed in step {step} after {delay} s: {done.err[-3000:]}")
    one_epoch, done = train("files", overrides=())
    expect("test_auc" in done.out, f"the result is on stdout: {done.out}")
    for count in (1, 2):
        listed = ",".join(["{}"] * count)
        fed, done = train(f"loaders-{count}", overrides=[
            f"loaders.instances=[{listed}]", f'nn_worker.instances=[{{address: "127.0.0.1:{ports(1)[0]}"}}]'])
        print(f"{count} loaders: {fed == one_epoch}", flush=True)
        expect(fed == one_epoch, f"the model of {count} loaders is that of files: {done.err[-2000:]}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["program"]:
        run_program(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
    else:
        main()
