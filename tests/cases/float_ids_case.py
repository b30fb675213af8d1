"""Integers that pandas writes as 3.0, since some are missing, are the same ids as 3."""

import json
import subprocess
import urllib.request

from case import BIN, clicks, expect, free_port, simurgh, write

user, item, price, hour, label, odds = clicks(6000)
HEADER = ["user_id", "item_id", "price", "label"]
write("train.csv", HEADER, [("" if k % 17 == 0 else f"{u}.0", i, p, y)
                            for k, (u, i, p, y) in enumerate(zip(user, item, price, label))])
write("test.csv", HEADER, list(zip(user, item, price, label))[:1500])
write("floats.csv", HEADER, [(f"{u}.0", i, p, y)
                             for u, i, p, y in list(zip(user, item, price, label))[:1500]])
done = simurgh("init", "train.csv", "--test", "test.csv", "--output", "d.yaml")
expect(" id" in done.line(r"\buser_id\b"), f"3.0 is an id: {done.line('user_id')}")
auc = simurgh("train", "d.yaml").value("test_auc")
expect(auc > .8, f"test_auc of ids without decimals is {auc}, expected .82")
aucs = []
for name in ["test", "floats"]:
    aucs.append(simurgh("predict", "--model", "d-model", "--input", f"{name}.csv", "--output",
                        f"{name}.scores", "--evaluate").value("test_auc"))
with open("test.scores") as one, open("floats.scores") as other:
    expect(one.read() == other.read(), "3 and 3.0 have the same predictions")
expect(aucs[0] == aucs[1] and aucs[0] > .8, f"AUC of 3 and 3.0: {aucs}")
