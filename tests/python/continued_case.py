"""An interrupted training that continues ends with the model of an undisturbed one, byte by byte."""

import signal
import warnings

from hosted import *

warnings.simplefilter("error")

# Of 80 steps.
OVERRIDES = ["training.epochs=2", "checkpoint.every_steps=20"]


def train(model, stop=None, at=-1):
    """Trains, or trains on. `stop`: "interrupt" or a signal, in step `at`. Returns a text of the end, and the steps."""
    with simurgh.torch.Worker("clicks.yaml", overrides=[f"checkpoint.directory={model}", *OVERRIDES]) as worker:
        net = Net(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.9)
        worker.track(net=net, optimizer=optimizer, scheduler=scheduler)
        torch.optim.lr_scheduler.StepLR(optimizer, 1000)  # One that is made later is possible, too.
        steps = []
        for batch in worker:
            steps.append(batch.step)
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            loss_of(logits, batch).backward()
            optimizer.step()
            scheduler.step()
            if batch.step == at:
                if stop == "interrupt":
                    worker.interrupt()
                else:
                    os.kill(os.getpid(), getattr(signal, stop))
            worker.finish(batch, logits)
    result = {name: value for name, value in worker.result.items() if name != "samples_per_sec"}
    return f"{optimizer.param_groups[0]['lr']:.9f} {result}", steps, worker.interrupted


def main():
    click_files()
    end, steps, interrupted = train("whole")
    whole = model_digest("whole")
    print(end, whole)
    expect(steps == list(range(80)) and not interrupted and "test_auc" in end, f"{end} {steps}")
    for stop, at in (("interrupt", 33), ("SIGTERM", 50), ("SIGINT", 0), ("SIGKILL", 47)):
        if stop == "SIGKILL":
            run("from continued_case import train; train('SIGKILL', 'SIGKILL', 47)", code=-9)
            begins = (20, 40)  # A checkpoint is written while training goes on.
        else:
            _, steps, interrupted = train(stop, stop, at)
            # Batches that have been read are trained on.
            expect(interrupted and at <= steps[-1] <= at + 20, f"{stop}: {steps}")
            expect(checkpoint(stop).name == f"step-{steps[-1] + 1}", f"{stop}: {checkpoint(stop)}")
            begins = (steps[-1] + 1,)
        now, steps, interrupted = train(stop)
        expect(steps[0] in begins and steps == list(range(steps[0], 80)), f"{stop}: continues at {begins}: {steps}")
        expect(model_digest(stop) == whole, f"{stop}: the model is that of an undisturbed training")
        expect(now == end and not interrupted, f"{stop}: ends as an undisturbed training: {now}, {end}")


if __name__ == "__main__":
    main()
