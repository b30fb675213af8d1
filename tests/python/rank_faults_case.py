"""A rank under torchrun that is killed is recovered from; an exception on one ends all ranks with its text."""

from ranks_case import *

FREQUENT = ["checkpoint.every_steps=10", "training.max_steps=60"]

if __name__ == "__main__":
    files(even=4000)
    whole, _ = train("whole", "sum", overrides=FREQUENT)
    killed, training = train("killed", "sum", plan=[(27, 1)], overrides=FREQUENT)
    expect(training.starts() == 1, f"the loss is told: {training.err}")
    expect([len(rank["losses"]) in (40, 50) for rank in killed] == [True, True], "both ranks continue from a checkpoint")
    expect(killed[0]["losses"][-40:] == whole[0]["losses"][-40:], "the losses are those of an undisturbed training")
    same = model_digest("killed-model", ignored=["uses"]) == model_digest("whole-model", ignored=["uses"])
    expect(same, "the model is that of an undisturbed training")

    ends, training = train("raised", "ddp", raises=14, overrides=FREQUENT, code=3)
    expect(ends == [] and training.starts() == 0, f"no rank goes on: {training.err}")
    expect("the program failed: ZeroDivisionError: of rank 1" in training.err, f"the reason is told: {training.err}")
    expect("rank 1 of 2 (nn_worker.instances.1) stopped: the program failed: ZeroDivisionError" in training.log(),
           f"rank 0 is told: {training.log()[-2000:]}")
