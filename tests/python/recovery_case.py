"""A training whose processes are killed ends with the model of an undisturbed one, byte by byte."""

from cluster import *

OVERRIDES = ["training.epochs=2", "checkpoint.every_steps=10", *sys.argv[1:]]  # Of 80 steps.
# The scaler's factor changes every five steps; dropout draws random numbers.
PROGRAM = """
    has_scaler = hasattr(torch, "amp") and hasattr(torch.amp, "GradScaler")
    with simurgh.torch.Worker() as worker:
        net = Net(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.9)
        objects = {"net": net, "optimizer": optimizer, "scheduler": scheduler}
        if has_scaler:
            scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=5)
            objects["scaler"] = scaler
        worker.track(**objects)
        for batch in worker:
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            loss = loss_of(logits, batch)
            if has_scaler:
                scaler.scale(loss).backward()
                batch.joined.grad /= scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
            else:
                loss.backward()
                optimizer.step()
            scheduler.step()
            for step, victim in PLAN:
                if step_is(batch, step, victim):
                    os.kill(os.getpid(), signal.SIGKILL) if victim == "program" else kill(victim)
            worker.finish(batch, logits)
    print(worker.result["test_auc"], worker.result["test_logloss"])
    """
PLAN = [(27, "program"), (35, "embedding-ps-1"), (48, "embedding-worker-0"), (61, "embedding-ps-0"), (79, "program")]


def train(name, plan=(), text=PROGRAM, code=0):
    return finished(name, text.replace("PLAN", repr(list(plan))), *OVERRIDES, servers=2, code=code)


def main():
    click_files()
    whole = train("whole")
    disturbed = train("disturbed", PLAN)
    print(f"{whole.seconds:.1f} s undisturbed, {disturbed.seconds:.1f} s disturbed", flush=True)
    for step, victim in PLAN:
        expect(pathlib.Path(f"disturbed-{step}-{victim}").exists(), f"{victim} was killed in step {step}")
    expect(disturbed.starts() >= len(PLAN), f"each loss is told: {disturbed.err}")
    # A pull that is repeated, because its worker was lost, counts twice in `uses`.
    same = model_digest(disturbed.model, ignored=["uses"]) == model_digest(whole.model, ignored=["uses"])
    expect(same, "the model is that of an undisturbed training")
    first = whole.out.splitlines()[0]
    expect("." in first and first in disturbed.out, f"the result is, too: {whole.out} {disturbed.out}")

    # A program that fails is not started again, also if it hides that.
    failed = train("failed", text=PROGRAM.replace("for step, victim in PLAN:", "if batch.step == 25:").replace(
        "if step_is(batch, step, victim):", "if True:").replace(
        'os.kill(os.getpid(), signal.SIGKILL) if victim == "program" else kill(victim)', 'raise ZeroDivisionError("ours")'),
        code=3)
    expect(failed.starts() == 0 and "the program failed: ZeroDivisionError: ours" in failed.err, f"fails at once: {failed.err}")
    hidden = finished("hidden", """
        try:
            with simurgh.torch.Worker() as worker:
                worker.track(net=Net(worker.inputs))
                for batch in worker:
                    raise ZeroDivisionError("hidden")
        except ZeroDivisionError:
            pass
        """, code=3)
    expect(hidden.starts() == 0 and "ZeroDivisionError: hidden" in hidden.err, f"an error that is hidden: {hidden.err}")
    idle = finished("idle", "print('idle')", code=3)
    expect("it has not trained; open a Worker" in idle.err, f"a program without a training: {idle.err}")


if __name__ == "__main__":
    main()
