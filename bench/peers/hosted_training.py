#!/usr/bin/env python3
"""Trains the network of pytorch_training.py as the dense part of a training by the daemons.

`bench/e2e/bench_training --hosted` starts it beside embedding-ps and embedding-worker. Prints the result line of the
trainer, whose clock runs as for the built-in network. The network is compiled before the first batch.
"""

import argparse

import torch

import simurgh.torch


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True, help="YAML file without a model")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a key")
    parser.add_argument("--hidden", default="256,128,64", help="outputs of the linear layers before the last")
    parser.add_argument("--dense-learning-rate", type=float, default=0.001)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile of the dense network")
    return parser.parse_args()


def make_network(inputs, hidden):
    layers, width = [], inputs.dense_width + inputs.embedding_width
    for outputs in [int(width) for width in hidden.split(",")]:
        layers += [torch.nn.Linear(width, outputs), torch.nn.ReLU()]
        width = outputs
    return torch.nn.Sequential(*layers, torch.nn.Linear(width, 1))


def main():
    flags = options()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    with simurgh.torch.Worker(flags.config, overrides=flags.set, join=True) as worker:
        layers = make_network(worker.inputs, flags.hidden)
        network = torch.compile(layers) if flags.compile else layers
        optimizer = torch.optim.Adam(layers.parameters(), lr=flags.dense_learning_rate, fused=True)
        loss_of = torch.nn.BCEWithLogitsLoss()

        def logits_of(batch):
            return network(torch.cat([batch.dense, batch.joined], dim=1)).squeeze(1)

        worker.track(forward=logits_of, network=layers, optimizer=optimizer)
        for _ in range(3):  # Compiles, outside the clock.
            network(torch.rand(worker.inputs.batch_size, layers[0].in_features, requires_grad=True)).sum().backward()
        for batch in worker:
            optimizer.zero_grad(set_to_none=True)
            logits = logits_of(batch)
            loss_of(logits, batch.labels).backward()
            optimizer.step()
            worker.finish(batch, logits)
    print(worker.result_text, end="")


if __name__ == "__main__":
    main()
