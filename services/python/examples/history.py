"""A transformer over a user's history, trained by clicks and by a sampled softmax over the items of the batch.

    simurgh train history.yaml -- python3 history.py

Sources: Kang and McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018, for the network; Yi et al.,
"Sampling-Bias-Corrected Neural Modeling for Large Corpus Item Recommendations", RecSys 2019, for the softmax, here
without the correction.
"""

import torch
from torch import nn

import simurgh.torch


class UserModel(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        history = next(feature for feature in inputs.features if feature.name == "history")
        self.places = nn.Parameter(torch.randn(history.rows, history.dim) * 0.1)
        layer = nn.TransformerEncoderLayer(history.dim, nhead=2, dim_feedforward=32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.bias = nn.Parameter(torch.tensor(0.0))

    def user(self, rows, mask):
        """Returns (B, dim): the mean of the encoded rows that have an item. rows: (B, L, dim); mask: (B, L)."""
        is_empty = mask == 0
        is_empty = is_empty & ~is_empty.all(1, keepdim=True)  # Attention needs one row.
        encoded = self.encoder(rows + self.places, src_key_padding_mask=is_empty)
        return (encoded * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)

    def forward(self, rows, mask, item):
        user = self.user(rows, mask)
        return user, self.scale * (user * item).sum(1) + self.bias


def main():
    torch.manual_seed(1)
    with simurgh.torch.Worker() as worker:
        net = UserModel(worker.inputs)
        optimizer = torch.optim.Adam(net.parameters(), 1e-3)

        def call(batch):
            rows = batch.embeddings
            return net(rows["history"], batch.masks["history"], rows["item"])

        worker.track(lambda batch: call(batch)[1], net=net, optimizer=optimizer)
        for batch in worker:
            user, logits = call(batch)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, batch.labels)
            clicked = batch.labels == 1
            if clicked.any():  # Each clicked item against those of the other clicks.
                scores = user[clicked] @ batch.embeddings["item"][clicked].T
                loss = loss + 0.1 * nn.functional.cross_entropy(scores, torch.arange(len(scores)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            worker.finish(batch, logits)


if __name__ == "__main__":
    main()
