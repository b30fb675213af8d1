"""Features made in polars, fed by two loader processes.

    simurgh train fed.yaml -- python3 fed.py clicks.csv

clicks.csv has the columns clicked, site, ad and time, in seconds since 1970.
"""

import multiprocessing
import sys

LOADERS = 2


def load(path, index):
    import polars

    import simurgh

    rows = polars.read_csv(path).with_columns(
        pair=polars.col("site") + "/" + polars.col("ad"),
        hour=(polars.col("time") % 86_400) // 3_600,
    )
    with simurgh.Loader(index=index) as loader:
        # Training has had the first rows if it continues a checkpoint.
        own = rows.gather_every(LOADERS, index).slice(loader.rows)
        for table in own.iter_slices(10_000):
            if not loader.feed(table):
                break


def main(path):
    import torch
    from torch import nn

    import simurgh.torch

    processes = multiprocessing.get_context("spawn")
    loaders = [processes.Process(target=load, args=(path, index)) for index in range(LOADERS)]
    for loader in loaders:
        loader.start()
    torch.manual_seed(1)
    with simurgh.torch.Worker() as worker:
        inputs = worker.inputs
        net = nn.Sequential(nn.Linear(inputs.dense_width + inputs.embedding_width, 32), nn.ReLU(), nn.Linear(32, 1))
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)

        def call(batch):
            return net(torch.cat([batch.dense, batch.joined], 1)).squeeze(1)

        worker.track(call, net=net, optimizer=optimizer)
        for batch in worker:
            logits = call(batch)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            worker.finish(batch, logits)
    for loader in loaders:
        loader.join()


if __name__ == "__main__":
    main(sys.argv[1])
