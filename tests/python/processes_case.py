"""The package in the processes of a program: exceptions, fork, spawn, the order of imports, and other versions."""

import multiprocessing

from hosted import *

InvalidError = simurgh.InvalidError


def train(steps=3):
    """Trains some steps. Returns the result."""
    with simurgh.torch.Worker("clicks.yaml", overrides=[f"training.max_steps={steps}"], log_level="error") as worker:
        net = Net(worker.inputs)
        worker.track(net=net)
        for batch in worker:
            logits = net(batch.dense, batch.embeddings)
            loss_of(logits, batch).backward()
            worker.finish(batch, logits)
    return worker.result


def use(queue, worker):
    """Puts the errors of a worker's methods."""
    errors = []
    for call in (lambda: next(worker), worker.interrupt, worker.close):
        try:
            call()
            errors.append("no error")
        except InvalidError as error:
            errors.append(str(error))
    queue.put(errors)


def open_worker(queue, folder):
    os.chdir(folder)  # A spawned process has imported `hosted` and is in its folder.
    try:
        queue.put(train()["test_auc"])
    except (simurgh.Error, RuntimeError) as error:
        queue.put(f"{type(error).__name__}: {error}")


def child(method, target, *arguments):
    """Runs a function in a process. Returns what it puts in its queue. Expects the exit code 0."""
    context = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    process = context.Process(target=target, args=(queue, *arguments))
    process.start()
    result = queue.get()
    process.join()
    expect(process.exitcode == 0, f"{method} {target.__name__}: exit code {process.exitcode}")
    return result


def check_fork_and_spawn():
    expected = train()["test_auc"]
    result = child("fork", open_worker, os.getcwd())
    # Some versions of PyTorch compute no gradients in a fork.
    expect(result == expected or "Autograd-and-Fork" in str(result), f"a fork after a closed worker trains: {result}")
    with simurgh.torch.Worker("clicks.yaml", overrides=["training.max_steps=5"], log_level="error") as worker:
        net = Net(worker.inputs)
        worker.track(net=net)
        for batch in worker:
            if batch.step == 1:
                kept = batch.labels.clone()
                errors = child("fork", use, worker)
                expect(all("has forked this one" in text and "'spawn'" in text for text in errors), f"in a fork: {errors}")
                text = child("fork", open_worker, os.getcwd())
                expect("has forked this one" in str(text), f"a second worker in a fork: {text}")
                text = child("spawn", open_worker, os.getcwd())
                expect(text == expected, f"a worker in a spawned process: {text}, expected {expected}")
                expect(torch.equal(kept, batch.labels), "the batch is as before")
            logits = net(batch.dense, batch.embeddings)
            loss_of(logits, batch).backward()
            worker.finish(batch, logits)
    expect("test_auc" in worker.result and batch.step == 4, "the parent of forks trains on")


def check_exceptions():
    _, _, err = run("""
        with simurgh.torch.Worker("clicks.yaml", overrides=["checkpoint.directory=failed"]) as worker:
            worker.track(net=Net(worker.inputs))
            for batch in worker:
                def of_the_user():
                    raise ZeroDivisionError("the user's")
                of_the_user()
        """, code=1)
    expect("in of_the_user" in err and err.rstrip().endswith("ZeroDivisionError: the user's"),
           f"the traceback is the user's: {err[-500:]}")
    expect("ZeroDivisionError: the user's" in err.split("Traceback")[0], f"the log has the reason: {err}")
    _, out, err = run("""
        worker = simurgh.torch.Worker("clicks.yaml", overrides=["checkpoint.directory=not-closed"])
        worker.track(net=Net(worker.inputs))
        batch = next(worker)
        print("the end")
        """)
    expect("the end" in out and "the worker was not closed" in err, f"a worker without a with block: {out} {err}")
    for model in ("failed", "not-closed"):
        expect(not list(pathlib.Path(model).glob("step-*")), f"{model}: nothing is saved")


def check_imports():
    orders = ["numpy torch simurgh simurgh.torch", "simurgh simurgh.torch numpy torch", "torch pyarrow simurgh.torch",
              "simurgh pyarrow torch", "pyarrow numpy simurgh.torch"]
    for order in orders:
        _, out, _ = run(f"""
            import glob, importlib
            sys.path += glob.glob({str(ROOT / 'build/arrow/lib/python3*/site-packages')!r})
            for name in {order.split()!r}:
                try:
                    importlib.import_module(name)
                except ImportError:
                    print("without", name)
            from hosted import *
            os.chdir(_folder)
            from processes_case import train
            print(train())
            """, bare=True)
        print(f"{order}:", *out.splitlines())
        expect("test_auc" in out and "without simurgh" not in out, f"{order}: {out}")


def check_versions():
    package = ROOT / "services/python/simurgh"
    shutil.copytree(package, "other/simurgh")
    text, count = re.subn(r"(?m)^INTERFACE_VERSION = .*", "INTERFACE_VERSION = 999", (package / "_library.py").read_text())
    expect(count == 1, "the package has a version of the interface")
    pathlib.Path("other/simurgh/_library.py").write_text(text)
    for path, library, parts in (("other", LIBRARY, ("has version 999", "install both from one wheel")),
                                 (package.parent, "/no/libsimurgh.so", ("/no/libsimurgh.so",))):
        done = subprocess.run([sys.executable, "-B", "-c", "import simurgh"], text=True, capture_output=True,
                              env={**os.environ, "PYTHONPATH": str(path), "SIMURGH_LIBRARY": str(library)})
        expect(done.returncode == 1 and all(part in done.stderr for part in parts), done.stderr)


if __name__ == "__main__":
    click_files()
    check_fork_and_spawn()
    check_exceptions()
    check_imports()
    check_versions()
