"""DLRM in PyTorch, on data in the Criteo layout.

    build/release/bin/datagen --output train.tsv --samples 200000
    build/release/bin/datagen --output test.tsv --samples 50000 --first 200000
    simurgh train dlrm.yaml -- python3 dlrm.py

Source of the network: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation
Systems", arXiv:1906.00091.
"""

import torch
from torch import nn

import simurgh.torch


def layers(*widths):
    parts = []
    for width, outputs in zip(widths, widths[1:]):
        parts += [nn.Linear(width, outputs), nn.ReLU()]
    return parts


class Dlrm(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.dim = inputs.features[0].dim
        vectors = len(inputs.features) + 1
        self.pairs = torch.triu_indices(vectors, vectors, offset=1)
        self.bottom = nn.Sequential(*layers(inputs.dense_width, 64, self.dim))
        self.top = nn.Sequential(*layers(self.dim + self.pairs.shape[1], 128, 64), nn.Linear(64, 1))

    def forward(self, dense, joined):
        bottom = self.bottom(dense)
        vectors = torch.cat([bottom, joined], 1).view(len(bottom), -1, self.dim)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat([bottom, dots], 1)).squeeze(1)


def main():
    torch.manual_seed(1)
    with simurgh.torch.Worker() as worker:
        net = Dlrm(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)
        worker.track(lambda batch: net(batch.dense, batch.joined), net=net, optimizer=optimizer)
        for batch in worker:
            logits = net(batch.dense, batch.joined)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            worker.finish(batch, logits)


if __name__ == "__main__":
    main()
