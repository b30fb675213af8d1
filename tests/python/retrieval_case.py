"""Vectors and evaluations of a model of two towers equal references in numpy and faiss; init --retrieval writes one."""

import json
import re

from package import raises, simurgh
from case import BIN, expect, program, skip
from served import Server

import numpy as np

from simurgh.result import result_of

try:
    import polars
except ImportError:
    skip("polars is missing")

USERS, ITEMS, KINDS, ROWS = 150, 240, 8, 12
random = np.random.default_rng(5)
kind_of = random.integers(0, KINDS, ITEMS)  # Of each item.
likes = random.integers(0, KINDS, USERS)  # The kind that a user likes.
CONFIG = """
cluster: {name: shop}
tables: [{names: [user, item, kind], dim: 8, optimizer: {kind: adam, learning_rate: 0.02}}]
data:
  format: csv
  csv: {header: true}
  train: [train.csv]
  validation: [valid.csv]
  test: [test.csv]
  items: {files: [items.csv], id: item, top: [5, 300], user: user, exclude_seen: EXCLUDES}
  columns:
    - {name: user, kind: id}
    - {name: item, kind: id}
    - {name: kind, kind: id}
    - {name: buys, kind: label}
model: {two_tower: {user: [user], item: [item, kind], layers: [{linear: 16}, relu], dim: 8}}
training: {batch_size: 64, epochs: 4, evaluate_every_epochs: 1, early_stopping: {patience: 2}}
checkpoint: {directory: shop-model}
"""


def interactions():
    """Returns rows (user, item, time): eight in ten are of the kind that the user likes. No user has an item twice."""
    rows = []
    for user in range(USERS):
        own = np.flatnonzero(kind_of == likes[user])
        items = set()
        while len(items) < ROWS:
            items.add(int(random.choice(own) if random.random() < 0.8 else random.integers(0, ITEMS)))
        rows += [(f"u{user}", item, 1_700_000_000 + int(random.integers(0, 10**7))) for item in items]
    return polars.DataFrame(rows, schema=["user", "item", "time"], orient="row")


def write(rows):
    """Writes the three parts, with two test rows of a user, an unknown item and a row without purchase."""
    rows = rows.with_columns(kind=polars.Series([f"k{kind_of[i]}" for i in rows["item"]]), buys=1)
    rows = rows.select("user", "item", "kind", "buys")
    place = np.arange(len(rows)) % ROWS
    rows.filter(place >= 3).write_csv("train.csv")
    rows.filter(place == 2).write_csv("valid.csv")
    extra = polars.DataFrame([("u1", 9_999, "k0", 1), ("u2", 3, "k1", 0), ("new", 5, "k2", 1)], schema=rows.schema,
                             orient="row")
    test = polars.concat([rows.filter(place < 2), extra])
    test.write_csv("test.csv")
    polars.DataFrame({"title": [f"Tür {i}" for i in range(ITEMS)], "kind": [f"k{kind}" for kind in kind_of],
                      "item": range(ITEMS)}).write_csv("items.csv")
    return rows.filter(place >= 3), test


def metrics(scores, users, relevant, seen, top):
    """Recall, hit rate, NDCG and MRR by their definition. scores: (users, items); an item is known by its position."""
    sums = {}
    for row, user in enumerate(users):
        wanted = relevant[user]
        left_out = seen.get(user, set()) - wanted
        # Items of equal scores are before a relevant one.
        order = sorted((i for i in range(ITEMS) if i not in left_out), key=lambda i: (-scores[row, i], i in wanted))
        gains = np.array([i in wanted for i in order], float)
        discounts = 1 / np.log2(np.arange(2, 2 + max(ITEMS, max(top))))
        for k in top:
            found = gains[:k].sum()
            best = discounts[: min(k, len(wanted))].sum()
            for name, value in (("recall", found / len(wanted)), ("hit_rate", float(found > 0)),
                                ("ndcg", (gains[:k] * discounts[: len(gains[:k])]).sum() / best)):
                sums[f"{name}@{k}"] = sums.get(f"{name}@{k}", 0) + value / len(users)
        first = np.flatnonzero(gains)
        sums["mrr"] = sums.get("mrr", 0) + (1 / (first[0] + 1) if len(first) else 0) / len(users)
    return sums


def check_numbers(train, test, excludes):
    with open("shop.yaml", "w") as file:
        file.write(CONFIG.replace("EXCLUDES", "true" if excludes else "false"))
    run = program("nn-worker", "--config", "shop.yaml", "--standalone", "--set",
                  f"checkpoint.directory=shop-model-{excludes}")
    printed = result_of(run.out)
    expect("warning" in run.out and "1 relevant items" in run.out, f"the unknown item is named: {run.out}")
    expect("auc=" not in run.out + run.err, "no AUC where none has a meaning")
    expect("ndcg@20=" in run.err and "validated" in run.err, "the log has the metrics of validations")
    model = simurgh.Model(f"shop-model-{excludes}")
    items = polars.read_csv("items.csv")
    vectors = model.vectors(items)
    expect(vectors.shape == (ITEMS, 8), f"the shape {vectors.shape}")
    expect(np.abs(np.linalg.norm(vectors, axis=1) - 1).max() < 1e-5, "items' vectors have length 1")
    users = list(dict.fromkeys(test.filter(polars.col("buys") > 0)["user"]))
    queries = model.vectors({"user": users}, "user")
    scores = queries @ vectors.T

    # Scores are predictions.
    pairs = items.select("item", "kind").join(polars.DataFrame({"user": users[:7]}), how="cross")
    wanted = model.predict(pairs.select("user", "item", "kind"))
    found = scores[:7].T.reshape(-1)
    expect(np.abs(found - wanted).max() < 1e-5, f"scores differ by {np.abs(found - wanted).max()}")

    relevant, seen = {}, {}
    for user, item in test.filter(polars.col("buys") > 0).select("user", "item").iter_rows():
        relevant.setdefault(user, set()).add(item)
    if excludes:
        for user, item in train.select("user", "item").iter_rows():
            seen.setdefault(user, set()).add(item)
    wanted = metrics(scores, users, relevant, seen, [5, 20, 300])
    if excludes:
        popular = np.bincount(train["item"], minlength=ITEMS)
        popular = metrics(np.tile(popular, (len(users), 1)), users, relevant, seen, [20])
        wanted["popular_recall@20"] = popular["recall@20"]
        expect(popular["recall@20"] < wanted["recall@20"] and "most often" not in run.out, f"no warning: {run.out}")
    evaluated = model.evaluate(test)
    expect(set(wanted) == {name.removeprefix("test_") for name in evaluated if name != "loss"}, f"names: {evaluated}")
    for name, value in wanted.items():
        # The line has four digits.
        expect(abs(evaluated[f"test_{name}"] - value) < 5.1e-5, f"{name}: {evaluated}, expected {value}")
    expect(evaluated == printed | {"loss": evaluated["loss"]} or all(evaluated[name] == printed[name] for name in evaluated),
           f"the training printed {printed}, the model {evaluated}")
    words = ["predict", "--model", f"shop-model-{excludes}", "--input", "test.csv", "--evaluate"]
    expect(result_of(program("simurgh", *words).out) == evaluated, "simurgh predict gives the same")
    ignoring = result_of(program("simurgh", *words, "--set", "data.items.exclude_seen=false").out)
    expect((ignoring != evaluated) == excludes, "exclude_seen counts")
    return model, vectors, queries, scores


def check_warning(train):
    """A training that finds less than the most popular items says so."""
    item, kind = train.group_by("item", "kind").len().sort("len", "item").select("item", "kind").row(-1)
    users = train["user"].unique(maintain_order=True)[:60]
    polars.DataFrame({"user": users}).with_columns(item=item, kind=polars.lit(kind), buys=1).write_csv("popular.csv")
    run = program("nn-worker", "--config", "shop.yaml", "--standalone", "--set", "data.items.exclude_seen=true",
                  "--set", "data.test=[popular.csv]", "--set", "training.epochs=1",
                  "--set", "checkpoint.directory=popular-model", "--set", "tables.0.optimizer.learning_rate=1e-9",
                  "--set", "training.dense_optimizer={kind: sgd, learning_rate: 1e-9}")
    printed = result_of(run.out)
    expect(printed["test_popular_recall@20"] == 1 > printed["test_recall@20"], f"popular items: {printed}")
    expect("warning" in run.out and "that training has most often" in run.out, f"a warning: {run.out}")


def check_update():
    """An update, which tests on the rows that it trains on, does not count them as popular."""
    run = program("simurgh", "update", "shop-model-True", "--data", "test.csv")
    expect("before_recall@20=" in run.out and "popular" not in run.out, f"an update prints {run.out}")


def check_export(vectors, queries, scores):
    export = ["export", "vectors", "--model", "shop-model-False"]
    program("simurgh", *export, "--input", "items.csv", "--output", "items.npz")
    found = np.load("items.npz")
    expect(found["ids"].dtype == np.int64 and (found["ids"] == np.arange(ITEMS)).all(), "ids are integers")
    expect(np.abs(found["vectors"] - vectors).max() < 1e-6, "the exported vectors are those of the model")
    program("simurgh", *export, "--input", "items.csv", "--id", "title", "--output", "titles.npz")
    titles = np.load("titles.npz")["ids"]
    expect(titles.dtype.kind == "U" and list(titles) == [f"Tür {i}" for i in range(ITEMS)], f"ids are texts: {titles[:3]}")
    program("simurgh", *export, "--input", "items.csv", "--output", "items.csv.csv")
    table = polars.read_csv("items.csv.csv")
    one = np.array(table["vector"][7].strip("[]").split(","), np.float32)
    expect(table["id"][7] == 7 and np.abs(one - vectors[7]).max() < 1e-6, "a line of CSV")
    if (BIN / "libsimurgh_arrow.so").exists():
        program("simurgh", *export, "--input", "items.csv", "--output", "items.parquet")
        table = polars.read_parquet("items.parquet")
        expect(list(table["ids"]) == list(range(ITEMS)), "ids of Parquet are integers")
        expect(np.abs(np.array(table["vectors"].to_list()) - vectors).max() < 1e-6, "vectors of Parquet")
        program("simurgh", *export, "--input", "items.csv", "--id", "title", "--output", "titles.parquet")
        expect(polars.read_parquet("titles.parquet")["ids"][7] == "Tür 7", "ids of Parquet are texts")
    polars.DataFrame({"user": ["u3", "u4"]}).write_csv("users.csv")
    program("simurgh", *export, "--tower", "user", "--input", "users.csv", "--output", "users.npz")
    expect(list(np.load("users.npz")["ids"]) == ["u3", "u4"], "users are named")
    try:
        from safetensors.numpy import load_file
        program("simurgh", *export, "--input", "items.csv", "--output", "items.safetensors")
        program("simurgh", *export, "--input", "items.csv", "--id", "title", "--output", "titles.safetensors")
        tensors = load_file("titles.safetensors")
        offsets = tensors["ids.offsets"]
        text = tensors["ids.bytes"][offsets[7] : offsets[8]].tobytes().decode()
        expect(len(offsets) == ITEMS + 1 and text == "Tür 7", f"the text {text}")
        tensors = load_file("items.safetensors")
        expect((tensors["ids"] == np.arange(ITEMS)).all(), "ids of safetensors")
        expect(np.abs(tensors["vectors"] - vectors).max() < 1e-6, "vectors of safetensors")
    except ImportError:
        print("safetensors is missing")
    try:
        import faiss
        index = faiss.IndexIDMap(faiss.IndexFlatIP(found["vectors"].shape[1]))
        index.add_with_ids(found["vectors"], found["ids"])
        near, ids = index.search(queries, 10)
        best = np.sort(scores, axis=1)[:, ::-1][:, :10]
        expect(np.abs(near - best).max() < 1e-4, "faiss finds the scores of numpy")
        of_ids = np.take_along_axis(scores, ids, axis=1)
        expect(np.abs(of_ids - best).max() < 1e-4, "faiss finds the items of numpy")
    except ImportError:
        print("faiss is missing")


def fails(*words, code=2):
    """Returns what a program prints that ends with an error."""
    return program(*words, code=code).all


def check_new_items():
    """An item that training has not seen has the vector of its other columns."""
    items = polars.read_csv("items.csv")
    trained = set(train["item"])
    known = min(trained)
    new = items.filter(polars.col("item") == known).with_columns(item=polars.lit(77_777, polars.Int64))
    polars.concat([items, new]).write_csv("more.csv")
    run = program("simurgh", "export", "vectors", "--model", "shop-model-False", "--input", "more.csv", "--output", "more.npz")
    wanted = f"items without a row in the model: {ITEMS + 1 - len(trained)} of {ITEMS + 1}"
    expect(wanted in run.err, f"{wanted!r} is in {run.err}")
    found = np.load("more.npz")["vectors"]
    expect(abs(np.linalg.norm(found[-1]) - 1) < 1e-5, "a vector")
    expect(np.abs(found[-1] - found[known]).max() > 1e-3, "a vector of its own")


def check_bad_input(model):
    export = ["simurgh", "export", "vectors", "--model", "shop-model-False", "--output", "out.npz", "--input"]
    items = polars.read_csv("items.csv")
    polars.concat([items, items.head(1)]).write_csv("twice.csv")
    error = fails(*export, "twice.csv")
    expect(f"rows 1 and {ITEMS + 1} have the id '0'" in error, error)
    items.drop("kind", "item").write_csv("lacking.csv")
    error = fails(*export, "lacking.csv")
    expect("lacks columns item, kind" in error, error)
    items.head(0).write_csv("empty.csv")
    error = fails(*export, "empty.csv")
    expect("there is no item" in error, error)
    raises(simurgh.InvalidError, lambda: model.vectors(items, "shop"), "user or item")
    raises(simurgh.InvalidError, lambda: model.vectors(items.drop("kind")), "kind")
    for text in ("items: twice.csv", "items: empty.csv"):
        with open("bad.yaml", "w") as file:
            file.write(re.sub(r"  items: .*", f"  {text.replace('items: ', 'items: {files: [')}], id: item}}", CONFIG))
        error = fails("nn-worker", "--config", "bad.yaml", "--standalone", "--set", "checkpoint.directory=bad")
        expect("have the id '0'" in error or "there is no item" in error, error)


def check_recommend():
    """Answers are those of the server."""
    model = simurgh.Model("shop-model-False", version="best")
    users = ["u1", "u7", "stranger", "u149"]
    best = model.recommend({"user": users}, 3)[0][0]
    queries = [(10, [], None), (ITEMS + 9, [], None), (5, [*best, "unknown"], None), (20, [], {"kind": ["k1", "k2"]}),
               (20, [7], {"kind": "k3", "title": [f"Tür {i}" for i in range(100)]}), (1, [], {"kind": []})]
    with Server([BIN / "simurgh", "serve", "--model", "shop-model-False", "--listen", "127.0.0.1:{port}"]) as server:
        server.wait("/v2/health/ready")
        for k, exclude, chosen in queries:
            body = {"instances": [{"user": user} for user in users], "k": k, "exclude": list(map(str, exclude)),
                    "filter": chosen or {}}
            status, answer = server.call("/v1/models/shop-model-False:recommend", body)
            expect(status == 200, f"{status}: {answer}")
            ids, scores = model.recommend({"user": users}, k, exclude=exclude, filter=chosen, items="items.csv")
            expect(ids.shape == scores.shape == (len(users), k), f"shapes {ids.shape} and {scores.shape}")
            for row, wanted in enumerate(answer["recommendations"]):
                count = len(wanted["ids"])
                expect(list(ids[row, :count]) == wanted["ids"] and not any(ids[row, count:]), f"{k}: {ids[row]}, {wanted}")
                expect(np.abs(scores[row, :count] - wanted["scores"]).max(initial=0) < 1e-5, f"scores {scores[row]}")
                expect(np.isnan(scores[row, count:]).all(), f"scores {scores[row]}")
    known = dict(polars.read_csv("items.csv").select("title", "item").iter_rows())
    titles, scores = model.recommend({"user": ["u3"]}, 4, item_id="title")
    ids, wanted = model.recommend({"user": ["u3"]}, 4)
    expect([str(known[title]) for title in titles[0]] == list(ids[0]) and (scores == wanted).all(), f"{titles}, {ids}")
    # A file that changes is read again.
    polars.read_csv("items.csv").head(3).write_csv("few.csv")
    expect(set(model.recommend({"user": ["u3"]}, 9, items="few.csv")[0][0]) == {"0", "1", "2", None}, "three items")
    polars.read_csv("items.csv").head(2).write_csv("few.csv")
    expect(set(model.recommend({"user": ["u3"]}, 9, items=["few.csv"])[0][0]) == {"0", "1", None}, "two items")
    found = model.recommend(polars.DataFrame({"user": []}, schema={"user": polars.String}), 2)
    expect(found[0].shape == found[1].shape == (0, 2), f"no users: {found}")
    raises(simurgh.InvalidError, lambda: model.recommend({"user": ["u1"]}, 0), "k: 0", "1 to 10000")
    raises(simurgh.InvalidError, lambda: model.recommend({"user": ["u1"]}, 10_001), "k: 10001")
    raises(simurgh.InvalidError, lambda: model.recommend({"user": ["u1"]}, filter={"knd": 1}), "nearest column is 'kind'")
    raises(simurgh.InvalidError, lambda: model.recommend({"usr": ["u1"]}), "user")


def check_report(model, test):
    """The page has the metrics of the evaluation, and no curves of predictions."""
    program("simurgh", "report", "shop-model-False", "--output", "page.html", "--json", "page.json")
    page, found = open("page.html", encoding="utf-8").read(), json.load(open("page.json", encoding="utf-8"))
    ranking = found["ranking"]
    evaluated = model.evaluate(test)
    expect(ranking["users"] == 151 and ranking["items"] == ITEMS and ranking["unknown_items"] == 1, f"{ranking}")
    expect(set(ranking["metrics"]) == {name.removeprefix("test_") for name in evaluated} - {"loss"}, f"{ranking}")
    for name, metric in ranking["metrics"].items():
        low, high = metric["interval"]
        expect(abs(metric["value"] - evaluated[f"test_{name}"]) < 5.1e-5, f"{name}: {metric}, {evaluated}")
        expect(low <= metric["value"] <= high, f"{name}: {metric}")
    # The standard error of a share is known.
    share = ranking["metrics"]["hit_rate@20"]["value"]
    width = np.subtract(*ranking["metrics"]["hit_rate@20"]["interval"][::-1])
    expect(0.8 < width / (3.92 * np.sqrt(share * (1 - share) / 151)) < 1.25, f"the width {width} of {share}")
    expect("recall@20 is" in found["headline"] and found["labels"] == [], f"{found['headline']}")
    for text in ("<h2>Rankings</h2>", "hit_rate@300", "ndcg@20 by step", "bootstrap over users"):
        expect(text in page, f"{text!r} is on the page")
    expect("ROC" not in page and "AUC" not in page, "no metrics of single rows")
    error = fails("simurgh", "report", "shop-model-False", "--output", "page.html", "--by", "kind")
    expect("--by" in error and "ranks items" in error, error)


def check_served_history():
    """A user without a history in the request is one with an empty one."""
    users = [{"user": "u1"}, {"user": "u1", "history": []}, {"user": "u1", "history": ["3", "5"]}]
    with Server([BIN / "simurgh", "serve", "--model", "init/shop-model", "--listen", "127.0.0.1:{port}"]) as server:
        server.wait("/v2/health/ready")
        status, answer = server.call("/v1/models/shop-model:recommend", {"instances": users, "k": 20})
    expect(status == 200, f"{status}: {answer}")
    none, empty, some = answer["recommendations"]
    expect(none == empty and none != some, f"answers with and without a history: {answer}")


def check_init(rows):
    rows.with_columns(note=polars.Series(np.arange(len(rows)))).write_csv("shop.csv")
    out = program("simurgh", "init", "--retrieval", "shop.csv", "--items", "items.csv", "--output", "init/shop.yaml").out
    expect("item: its values are those of 'item'" in out and "kind: feature of items, 8 values" in out, out)
    expect("title: left out" in out, f"distinct titles are no feature: {out}")
    train = polars.read_csv("init/shop.train.csv")
    test = polars.read_csv("init/shop.test.csv")
    last = rows.sort("time").group_by("user", maintain_order=True).last()
    expect(dict(test.select("user", "item").iter_rows()) == dict(last.select("user", "item").iter_rows()),
           "the newest row of each user is for the test")
    expect(len(train) == USERS * (ROWS - 2) and set(train["label"]) == {1}, "the others are positives")
    before = {}
    for user, item, _ in rows.sort("time", maintain_order=True).iter_rows():
        before[user, item] = before.get(user, [])[::-1]
        before.setdefault(user, []).append(item)
    expect("history: the user's earlier items" in out, out)
    for part in (train, polars.read_csv("init/shop.valid.csv"), test):
        wrong = [(user, item) for user, history, item in part.select("user", "history", "item").iter_rows()
                 if [int(one) for one in (history or "").split()] != before[user, item]]
        expect(not wrong, f"histories of {wrong[:3]}")
    printed = result_of(program("nn-worker", "--config", "init/shop.yaml", "--standalone").out)
    popular = train["item"].value_counts(sort=True)["item"].to_list()
    seen = {}
    for user, item in train.select("user", "item").iter_rows():
        seen.setdefault(user, set()).add(item)
    hits = [item in [i for i in popular if i not in seen[user]][:20] for user, item in test.select("user", "item").iter_rows()]
    print(f"recall@20 {printed['test_recall@20']}, by popularity {np.mean(hits):.4f}", flush=True)
    expect(printed["test_recall@20"] >= 3 * np.mean(hits), f"recall {printed} against {np.mean(hits)}")
    check_served_history()
    out = program("simurgh", "init", "--retrieval", "shop.csv", "--no-history", "--output", "no/shop.yaml").out
    expect("history" not in out and polars.read_csv("no/shop.test.csv").columns == ["user", "item", "label"], out)
    # A history is read by the user's tower. Labels of two values and weights keep their meaning.
    random = np.random.default_rng(2)
    further = rows.with_columns(
        hist_items=polars.Series(["|".join(map(str, random.choice(ITEMS, i % 4))) for i in range(len(rows))]),
        rating=polars.Series(random.integers(1, 6, len(rows))), weight=polars.Series(random.random(len(rows)).round(3)))
    further = polars.concat([further, further.head(2).with_columns(item=polars.lit(9_999, polars.Int64))])
    further.write_csv("further.csv")
    out = program("simurgh", "init", "--retrieval", "further.csv", "--items", "items.csv", "--output", "f/shop.yaml").out
    for text in ("hist_items: history", "rating: label: 4 and more", "weight: weight", "left out 2 rows of items"):
        expect(text in out, f"{text!r} is in: {out}")
    train = polars.read_csv("f/shop.train.csv")
    both = train.join(further.select("user", "item", "rating", "hist_items", "weight"), on=["user", "item"])
    expect(len(both) == len(train) and (both["rating"] == (both["rating_right"] >= 4)).all(), "labels of ratings")
    histories = both.select(polars.col("hist_items", "hist_items_right").fill_null(""))
    expect((histories["hist_items"] == histories["hist_items_right"]).all(), "histories are copied")
    expect((both["weight"] == both["weight_right"]).all(), "weights are copied")
    run = program("nn-worker", "--config", "f/shop.yaml", "--standalone", "--set", "training.epochs=1")
    expect("test_ndcg@20=" in run.out, run.out)
    # Without a file of items, they are those of the rows.
    out = program("simurgh", "init", "--retrieval", "shop.csv", "--output", "alone/shop.yaml").out
    expect(set(polars.read_csv("alone/shop.items.csv")["item"]) == set(rows["item"]), out)
    polars.DataFrame({"a": [1, 2], "b": [3, 4]}).write_csv("nothing.csv")
    expect("name it by --item" in fails("simurgh", "init", "--retrieval", "nothing.csv"), "no item")


rows = interactions()
train, test = write(rows)
check_numbers(train, test, True)
check_warning(train)
model, vectors, queries, scores = check_numbers(train, test, False)
check_export(vectors, queries, scores)
check_new_items()
check_recommend()
check_report(model, test)
check_bad_input(model)
check_init(rows)
check_update()
