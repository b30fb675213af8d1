"""A saved model has the same bytes with 1 and 3 servers, and with any number of partitions."""

from hosted import *


def train(model, *overrides):
    """Trains two epochs. Returns the digest of the model's rows and network, and the results."""
    with log(), simurgh.torch.Worker(click_files(), overrides=[
            f"checkpoint.directory={model}", "training.epochs=2", *overrides]) as worker:
        net = Net(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        worker.track(net=net, optimizer=optimizer)
        for batch in worker:
            logits = net(batch.dense, batch.embeddings)
            optimizer.zero_grad()
            loss_of(logits, batch).backward()
            optimizer.step()
            worker.finish(batch, logits)
    return model_digest(model), {name: worker.result[name] for name in ("test_auc", "test_logloss")}


SERVERS = "embedding_ps.instances=[" + ",".join(f'{{address: "127.0.0.1:{port}"}}' for port in (3, 4, 5)) + "]"
for name, overrides in (("sync", []), ("staleness", ["training.mode=hybrid", "training.staleness=4",
                                                     "training.reproducible=true"])):
    one, result = train(f"{name}-1", *overrides)
    three, of_three = train(f"{name}-3", SERVERS, "embedding_ps.partitions=2", *overrides)
    print(name, one, three, result, of_three, flush=True)
    expect(one == three, f"{name}: rows and network of 1 and 3 servers are equal")
    expect(result == of_three and result["test_auc"] > 0.65, f"{name}: {result} and {of_three}")
    parts = {len(list(table.glob("*.safetensors"))) for table in (checkpoint(f"{name}-3") / "rows").iterdir()}
    expect(parts == {3}, f"{name}: each of 3 servers has saved rows: {parts}")
one, _ = train("sync-rows", "training.embeddings=rows")
expect(one == model_digest("sync-1"), "rows that the nn-worker pools give the same model as pooled embeddings")
