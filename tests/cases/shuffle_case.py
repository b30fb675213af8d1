"""Files that are sorted by the label or by users train as well as mixed ones, without a copy."""

from case import clicks, expect, simurgh, write

ROWS = 12000
user, item, price, hour, label, odds = clicks(ROWS + 4000)
rows = list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))
write("test.csv", ["user", "item", "price", "label"], rows[ROWS:])
rows = rows[:ROWS]
orders = {"mixed": rows,
          "by_label": sorted(rows, key=lambda row: row[3]),
          "by_user": sorted(rows, key=lambda row: row[0])}
losses = {}
for name, ordered in orders.items():
    write(f"{name}.csv", ["user", "item", "price", "label"], ordered)
    with open(f"{name}.yaml", "w") as file:
        file.write(f"""
data:
  train: [{name}.csv]
  test: [test.csv]
  columns:
    - {{name: label, kind: label}}
    - {{name: user, kind: id}}
    - {{name: item, kind: id}}
    - {{name: price, kind: dense}}
model: deepfm
training: {{epochs: 3, batch_size: 128}}
""")
    for shuffle in [0, ROWS // 10, 65536]:
        if shuffle != 65536 and name == "mixed":
            continue
        ended = simurgh("train", f"{name}.yaml", "--standalone", "--set", f"data.shuffle={shuffle}")
        losses[name, shuffle] = ended.value("test_logloss")
print(losses)
for name in ["by_label", "by_user"]:
    whole = losses[name, 65536] - losses["mixed", 65536]
    expect(abs(whole) < 0.003, f"{name}: a window with all rows is as good as mixed rows: {losses}")
    expect(losses[name, 0] > losses["mixed", 65536] + 0.02, f"{name} in order is worse: {losses}")
tenth = losses["by_user", ROWS // 10] - losses["mixed", 65536]
expect(tenth < 0.01, f"windows of a tenth of the users are nearly as good: {losses}")
