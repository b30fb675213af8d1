"""A two-tower network of PyTorch, for bench_recall: sampled softmax over the items of a batch, with logQ correction.

Source: Yi et al., "Sampling-bias-corrected neural modeling for large corpus item recommendations", RecSys 2019. The
frequency of an item is that of the training rows, where theirs is a streaming estimate."""

import copy

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional

HISTORY = 50


class Towers(nn.Module):
    """config: what `simurgh init --retrieval` wrote."""

    def __init__(self, users, items, columns, config, has_history):
        super().__init__()
        table, model = config["tables"][0], config["model"]["two_tower"]
        dim = table["dim"]
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.columns = nn.ModuleList(nn.EmbeddingBag(size, dim, mode="mean") for size, _, _ in columns)
        self.values = [(torch.from_numpy(ids), torch.from_numpy(starts)) for _, ids, starts in columns]
        for rows in [self.user, self.item, *self.columns]:
            nn.init.normal_(rows.weight, std=table["initializer"]["stddev"])
        self.has_history = has_history
        self.user_tower = self.tower(dim * (2 if has_history else 1), model)
        self.item_tower = self.tower(dim * (1 + len(columns)), model)

    def rows(self):
        return [self.user.weight, self.item.weight, *(table.weight for table in self.columns)]

    @staticmethod
    def tower(width, model):
        layers = []
        for layer in model["layers"]:
            if layer == "relu":
                layers.append(nn.ReLU())
            else:
                layers.append(nn.Linear(width, layer["linear"]))
                width = layer["linear"]
        return nn.Sequential(*layers, nn.Linear(width, model["dim"]))

    def users(self, users, histories):
        parts = [self.user(users)]
        if self.has_history:
            mask = (histories >= 0).unsqueeze(2)
            rows = self.item(histories.clamp(min=0)) * mask
            parts.append(rows.sum(1) / mask.sum(1).clamp(min=1))
        return functional.normalize(self.user_tower(torch.cat(parts, 1)), dim=1)

    def items(self, items):
        parts = [self.item(items)]
        for table, (ids, starts) in zip(self.columns, self.values):
            pieces = [ids[starts[i] : starts[i + 1]] for i in items.tolist()]
            offsets = torch.tensor([0, *np.cumsum([len(p) for p in pieces])[:-1]], dtype=torch.long)
            parts.append(table(torch.cat(pieces), offsets))
        return functional.normalize(self.item_tower(torch.cat(parts, 1)), dim=1)


def columns_of(items):
    """Each column but the id: (number of values, ids, starts), a cell's words are its values."""
    out = []
    for name in items.columns[1:]:
        words = items[name].str.split().map(lambda cell: cell or ["missing"])
        codes, values = pd.factorize(np.concatenate(words.to_numpy()))
        out.append((len(values), codes.astype(np.int64), np.concatenate([[0], np.cumsum(words.map(len))]).astype(np.int64)))
    return out


def histories_of(split):
    """For each interaction, the last items that its user had before; -1 where there are fewer."""
    out, had = np.full((len(split.rows), HISTORY), -1), {}
    for row, (user, item) in enumerate(zip(split.rows["user"], split.rows["item"])):
        seen = had.setdefault(user, [])
        if seen:
            last = seen[-HISTORY:]
            out[row, : len(last)] = last
        seen.append(item)
    return out


def fit(split, seed, config, has_history, quality):
    """Trains with early stopping by the validation NDCG; returns scores of users for `quality`."""
    training, temperature = config["training"], config["model"]["two_tower"].get("temperature", 0.05)
    torch.manual_seed(seed)
    histories = torch.from_numpy(histories_of(split))
    network = Towers(len(split.users), len(split.items), columns_of(split.items), config, has_history)
    rows_of = {id(weight) for weight in network.rows()}
    optimizer = torch.optim.Adam([
        {"params": network.rows(), "lr": config["tables"][0]["optimizer"]["learning_rate"]},
        {"params": [w for w in network.parameters() if id(w) not in rows_of],
         "lr": training["dense_optimizer"]["learning_rate"]}])
    train = split.parts["train"]
    rows = torch.from_numpy(train.index.to_numpy(copy=True))
    users = torch.from_numpy(split.rows["user"].to_numpy(copy=True))
    items = torch.from_numpy(split.rows["item"].to_numpy(copy=True))
    counts = np.bincount(train["item"], minlength=len(split.items))
    log_q = torch.from_numpy(np.log(np.maximum(counts, 1) / len(train))).float()

    def scores():
        """Those of the present weights."""
        with torch.no_grad():
            of_items = network.items(torch.arange(len(split.items)))
            found = {}
            for name in ("validation", "test"):
                part = split.parts[name]
                chosen, places = torch.from_numpy(part["user"].to_numpy(copy=True)), part.index.to_numpy()
                found[name] = (network.users(chosen, histories[places]) @ of_items.T).numpy()
        return lambda name, chosen: found[name]  # In the order of the part.

    patience = training["early_stopping"]["patience"]
    top, kept, left = -1, None, patience
    for _ in range(training["epochs"]):
        network.train()
        for batch in rows[torch.randperm(len(rows))].split(training["batch_size"]):
            of_items = items[batch]
            logits = network.users(users[batch], histories[batch]) @ network.items(of_items).T / temperature
            logits = logits - log_q[of_items]
            same = (of_items[:, None] == of_items[None]) & ~torch.eye(len(batch), dtype=torch.bool)
            loss = functional.cross_entropy(logits.masked_fill(same, -np.inf), torch.arange(len(batch)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        network.eval()
        found = scores()
        ndcg = quality(split, "validation", found)["ndcg"]
        if ndcg > top:
            top, kept, left = ndcg, found, patience
        else:
            left -= 1
            if left == 0:
                break
    return kept
