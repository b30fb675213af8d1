"""Dates and Unix times give the hour, the day of the week and the age."""

import datetime

from case import clicks, expect, np, simurgh, write

ROWS = 6000
user, item, price, hour, label, odds = clicks(ROWS)
random = np.random.default_rng(5)
start = 1_700_000_000
seconds = start + random.integers(0, 60 * 86_400, ROWS)
moments = [datetime.datetime.fromtimestamp(int(s), datetime.timezone.utc) for s in seconds]
# The label depends on the hour, the day of the week and the age.
of_hour = np.random.default_rng(6).normal(0, 1.2, 24)
of_day = np.random.default_rng(7).normal(0, 1.2, 7)
odds = (np.array([of_hour[m.hour] + of_day[m.weekday()] for m in moments])
        + (seconds - start) / (60 * 86_400) * 3 - 1.5)
label = (random.random(ROWS) < 1 / (1 + np.exp(-odds))).astype(int)
users = [f"u{x}" for x in user]

texts = {
    "iso": [m.strftime("%Y-%m-%d %H:%M:%S") for m in moments],
    "iso_t": [m.strftime("%Y-%m-%dT%H:%M:%SZ") for m in moments],
    "epoch": list(seconds),
    "millis": [int(s) * 1000 for s in seconds],
    "german": [m.strftime("%d.%m.%Y %H:%M:%S") for m in moments],
    "us": [m.strftime("%m/%d/%Y %I:%M:%S %p") for m in moments],
}
aucs = {}
for name, cells in texts.items():
    write(f"{name}.csv", ["user", "time", "label"], zip(users, cells, label))
    line = simurgh("init", f"{name}.csv").line(r"\btime\b")
    expect("from 2023-11-14 to 2024-01-13" in line and "hour" in line, f"{name} is a time: {line}")
    if name in ["iso", "millis", "german", "us"]:
        aucs[name] = simurgh("train", f"{name}.yaml").value("test_auc")
expect(len(set(aucs.values())) == 1, f"the same AUC of all: {aucs}")
expect(aucs["iso"] > .8, f"test_auc is {aucs['iso']}, expected .83")
# The server and predict read both notations.
write("mixed.csv", ["user", "time"], [(users[k], texts["iso" if k % 2 else "millis"][k])
                                      for k in range(100)])
write("same.csv", ["user", "time"], [(users[k], texts["iso"][k]) for k in range(100)])
for name in ["mixed", "same"]:
    simurgh("predict", "--model", "iso-model", "--input", f"{name}.csv", "--output",
            f"{name}.scores")
with open("mixed.scores") as one, open("same.scores") as other:
    expect(one.read() == other.read(), "both notations have the same predictions")

# So do they other orders.
write("ordered.csv", ["user", "time"], [(users[k], texts["german"][k]) for k in range(100)])
simurgh("predict", "--model", "german-model", "--input", "ordered.csv", "--output", "ordered.scores")
with open("ordered.scores") as one, open("same.scores") as other:
    expect(one.read() == other.read(), "the order of the parts changes no prediction")
simurgh("init", "us.csv", "--force", "--time", "time")
last = moments[int(np.argmax(seconds))].strftime("%m/%d/%Y %I:%M:%S %p")
expect(last in open("us.test.csv").read(), "the newest row is for the test")

# Dates without a time have no hour. Some cells are missing.
write("days.csv", ["user", "day", "label"],
      [(u, "" if k % 10 == 0 else m.strftime("%Y%m%d"), y)
       for k, (u, m, y) in enumerate(zip(users, moments, label))])
line = simurgh("init", "days.csv").line(r"\bday\b")
expect("dates from 2023-11-14 to 2024-01-13" in line and "hour" not in line, f"days: {line}")
