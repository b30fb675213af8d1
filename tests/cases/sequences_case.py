"""Lists of items that a user has seen become sequences with attention to the item."""

from case import expect, np, simurgh, write

ROWS, GROUPS, ITEMS = 24000, 6, 60
random = np.random.default_rng(3)
group = random.permutation(np.arange(ITEMS) % GROUPS)
effect = random.normal(0, 0.5, ITEMS)
user = random.integers(0, 500, ROWS)
item = random.integers(0, ITEMS, ROWS)
seen = []
for _ in range(ROWS):
    liked = np.flatnonzero(np.isin(group, random.choice(GROUPS, 3, replace=False)))
    seen.append(random.choice(liked, random.integers(1, 13)))
# The label depends on whether the item's group is among those of the items seen.
odds = effect[item] + np.array([1.3 if group[i] in group[s] else -1.3 for i, s in zip(item, seen)])
label = (random.random(ROWS) < 1 / (1 + np.exp(-odds))).astype(int)


def made(name, header, start):
    write(f"{name}.csv", ["user_id", header[0], header[1], "click"],
          [[f"u{u}", f"{start}{i}", "|".join(f"{start}{x}" for x in s), y]
           for u, i, s, y in zip(user, item, seen, label)])
    done = simurgh("init", f"{name}.csv", "--force")
    with open(f"{name}.yaml") as file:
        return done, file.read()


done, text = made("letters", ("item_id", "hist_item"), "i")
expect("attention for item_id, which has 100 % of them" in done.line(r"\bhist_item\b"), done.out)
expect("{name: hist_item, table: item_id, pooling: raw, max_length: 12, keep: last, mask: true}"
       in text, text)
expect("attention: [{sequence: hist_item, query: item_id}]" in text, text)
attended = simurgh("train", "letters.yaml").value("test_auc")
expect(attended > 0.775, f"test_auc is {attended}, of the true odds about 0.81")

# The same with pooled lists.
text = text.replace("attention: [{sequence: hist_item, query: item_id}], ", "")
text = text.replace(", table: item_id, pooling: raw, max_length: 12, keep: last, mask: true", "")
text = text.replace("      - item_id\n", "      - item_id\n      - hist_item\n")
with open("pooled.yaml", "w") as file:
    file.write(text.replace("letters-model", "pooled-model"))
pooled = simurgh("train", "pooled.yaml").value("test_auc")
expect(attended > pooled + 0.005, f"test_auc of attention {attended}, of pooling {pooled}")

# Predictions and the next day read the same sequences.
again = simurgh("predict", "--model", "letters-model", "--input", "letters.test.csv", "--output",
                "scores.csv", "--evaluate")
expect(abs(again.value("test_auc") - attended) < 1e-4, again.all)

# A device computes attention, where there is one.
simurgh("train", "letters.yaml", "--set", "nn_worker.device=auto", "--set",
        "training.max_steps=3", "--set", "checkpoint.directory=auto-model")

# Integers, and names that tell nothing: the lists are pooled.
done, text = made("integers", ("movie", "recently_viewed_movies"), "")
expect("query: movie}" in text, f"{done.out}{text}")
done, text = made("others", ("item_id", "tags"), "i")
expect("attention" not in text and "pooling" not in text, f"{done.out}{text}")
