"""Large values of libsvm and libffm train what the same values divided by their scale train.

The reference is a logistic regression on the scaled values of the rows that `init` trains on. Its
penalty is the best one of the validation rows.
"""

from case import clicks, expect, np, simurgh

user, item, price, hour, label, odds = clicks(6000)


def rows(path, factor, is_ffm=False, labels=label):
    with open(path, "w") as file:
        for u, i, p, y in zip(user, item, price, labels):
            pairs = [f"{u + 1}:1", f"{i + 201}:1", f"300:{p * factor:.6f}"]
            if is_ffm:
                pairs = [f"{field}:{pair}" for field, pair in enumerate(pairs)]
            file.write(f"{y} {' '.join(pairs)}\n")


def read(path):
    labels, matrix = [], []
    with open(path) as file:
        for line in file:
            first, *pairs = line.split()
            row = np.zeros(301)
            for pair in pairs:
                index, value = pair.split(":")[-2:]
                row[int(index)] = float(value)
            labels.append(float(first))
            matrix.append(row)
    return np.array(labels), np.array(matrix)


def fit(matrix, labels, penalty):
    """Newton's method; the last weight is the intercept."""
    matrix = np.hstack([matrix, np.ones((len(matrix), 1))])
    weights = np.zeros(matrix.shape[1])
    ridge = np.append(np.full(matrix.shape[1] - 1, float(penalty)), 1e-6)
    for _ in range(8):
        p = 1 / (1 + np.exp(-matrix @ weights))
        hessian = (matrix * (p * (1 - p))[:, None]).T @ matrix + np.diag(ridge)
        weights -= np.linalg.solve(hessian, matrix.T @ (p - labels) + ridge * weights)
    return weights


def loss(weights, matrix, labels):
    p = 1 / (1 + np.exp(-(matrix @ weights[:-1] + weights[-1])))
    return -np.mean(np.log(np.where(labels == 1, p, 1 - p)))


def reference(name, ending):
    parts = [read(f"{name}.{part}.{ending}") for part in ("train", "valid", "test")]
    scale = parts[0][1].std(axis=0)
    scale[scale == 0] = 1
    (y, train), (y_valid, valid), (y_test, test) = [(y, matrix / scale) for y, matrix in parts]
    fits = [fit(train, y, penalty) for penalty in (30, 100)]
    best = min(fits, key=lambda weights: loss(weights, valid, y_valid))
    return loss(best, test, y_test)


for name, factor in (("large.svm", 1e6), ("large.ffm", 1e4)):
    stem = f"{name[:-4]}_{name[-3:]}"
    path = f"{stem}.{name[-3:]}"
    rows(path, factor, name.endswith("ffm"))
    simurgh("init", path)
    done = simurgh("train", f"{stem}.yaml")
    result = done.value("test_logloss")
    expect("warn" not in done.err, f"{name}: {done.err[-2000:]}")
    expected = reference(stem, name[-3:])
    expect(result < expected + 0.005,
           f"{name}: loss {result}, of a logistic regression {expected}")
    again = simurgh("predict", "--model", f"{stem}-model", "--input", f"{stem}.test.{name[-3:]}",
                    "--output", "scores.csv", "--evaluate")
    expect(abs(again.value("test_logloss") - result) < 1e-4, f"{name}: {again.all}")

# A regression. Its noise has the deviation 20,000.
noise = np.random.default_rng(3).normal(0, 20000, len(odds))
rows("numbers.svm", 1e4, labels=[f"{x:.2f}" for x in 250000 + 80000 * odds + noise])
simurgh("init", "numbers.svm")
done = simurgh("train", "numbers.yaml")
expect(done.value("test_rmse") < 26000, f"regression: {done.out}")
