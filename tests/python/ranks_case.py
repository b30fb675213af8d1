"""Two ranks under torchrun have the losses of one rank with the joined batches; a step that one leaves out all leave out."""

from cluster import *

STEPS = 100

PROGRAM = """
    import torch.distributed
    rank, how = int(os.environ.get("RANK", "0")), HOW
    if how == "ddp":
        torch.distributed.init_process_group("gloo")
    with simurgh.torch.Worker(log_level="info") as worker:
        torch.manual_seed(1)
        width = worker.inputs.dense_width + worker.inputs.embedding_width
        net = torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
        if NORM:
            net.insert(1, torch.nn.BatchNorm1d(16))
        called = torch.nn.parallel.DistributedDataParallel(net) if how == "ddp" else net

        def forward(batch, called=net):
            return called(torch.cat([batch.dense, *batch.embeddings.values()], 1))[:, 0]

        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        worker.track(forward, net=net, optimizer=optimizer)
        losses, rows, unchanged = [], [], []
        for batch in worker:
            before = [weight.detach().clone() for weight in net.parameters()]
            logits = forward(batch, called)
            loss = loss_of(logits, batch)
            losses.append(float(loss.detach()))
            rows.append(batch.rows)
            if rank == 1 and batch.step == SPOILED:
                logits.register_hook(lambda gradient: gradient * float("nan"))
            optimizer.zero_grad()
            loss.backward()
            if how == "sum":
                worker.sum(net)
            optimizer.step()
            if all(torch.equal(old, new) for old, new in zip(before, net.parameters())):
                unchanged.append(batch.step)
            for step, victim in PLAN:
                if rank == victim and step_is(batch, step, victim):
                    os.kill(os.getpid(), signal.SIGKILL)
            if batch.step == RAISES and rank == 1:
                raise ZeroDivisionError("of rank 1")
            worker.finish(batch, logits)
    weights = [weight.detach().numpy().tobytes().hex() for weight in net.state_dict().values()]
    pathlib.Path(f"{name}-{rank}.json").write_text(json.dumps(
        {"losses": losses, "rows": rows, "unchanged": unchanged, "weights": weights, "result": worker.result}))
    """


def train(name, how, ranks=2, batch=100, norm=False, spoiled=-1, plan=(), raises=-1, data="even.csv", code=0, *,
          overrides=()):
    """Trains. Returns what each rank has written, and the training."""
    text = PROGRAM
    for word, value in {"HOW": how, "NORM": norm, "SPOILED": spoiled, "PLAN": list(plan), "RAISES": raises}.items():
        text = text.replace(word, repr(value))
    training = finished(name, text, f"training.batch_size={batch}", "training.epochs=5", f"data.train=[{data}]", *overrides,
                        ranks=ranks, launcher=torchrun(2) if ranks > 1 else None, code=code)
    print(f"{name}: {training.seconds:.1f} s", flush=True)
    paths = [pathlib.Path(f"{name}-{rank}.json") for rank in range(ranks)]
    return [json.loads(path.read_text()) for path in paths if path.exists()], training


def files(**rows):
    """Writes files NAME.csv with this number of rows."""
    click_files()
    header, *lines = pathlib.Path("clicks.csv").read_text().splitlines(keepends=True)
    for name, count in rows.items():
        pathlib.Path(f"{name}.csv").write_text("".join([header, *(lines + lines)[:count]]))


def main():
    files(even=4000, uneven=4050)
    (one,), _ = train("joined", "alone", ranks=1, batch=200)
    expect(one["rows"] == [200] * STEPS, f"{one['rows']}")
    for how in ("ddp", "sum"):
        ranks, _ = train(how, how)
        expect(len(ranks) == 2, f"{how}: both ranks end")
        means = np.mean([rank["losses"] for rank in ranks], 0)
        difference = np.abs(means - one["losses"]).max()
        print(f"{how}: greatest difference of {len(means)} losses: {difference:.2e}", flush=True)
        expect(len(means) == STEPS and difference <= 1e-5, f"{how}: the losses are those of the joined batches: {difference}")
        expect(ranks[0]["weights"] == ranks[1]["weights"], f"{how}: the ranks have the same weights")
        expect(abs(ranks[0]["result"]["test_logloss"] - one["result"]["test_logloss"]) <= 1e-4,
               f"{how}: {ranks[0]['result']} and {one['result']}")
    # Rank 1 has an empty batch at the end of each epoch, and gradients that are not finite in step 5.
    ranks, training = train("uneven", "sum", norm=True, spoiled=5, data="uneven.csv", overrides=["training.drop_last=false"])
    expect([rank["rows"][19:22] for rank in ranks] == [[100, 50, 100], [100, 0, 100]], f"{[rank['rows'] for rank in ranks]}")
    expect([rank["unchanged"] for rank in ranks] == [[5], [5]], f"both leave step 5 out: {[one['unchanged'] for one in ranks]}")
    trained = [line for line in training.log().splitlines() if " trained: steps=105 " in line]
    expect(len(trained) == 2 and all("skipped_steps=1 " in line for line in trained), f"both count the step: {trained}")
    expect(len(ranks) == 2 and ranks[0]["weights"] == ranks[1]["weights"], "the ranks have the same weights and statistics")
    expect(ranks[0]["result"]["test_auc"] > 0.7, f"{ranks[0]['result']}")


if __name__ == "__main__":
    main()
