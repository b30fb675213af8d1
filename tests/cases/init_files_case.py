"""What `simurgh init` does with a read-only folder, with many columns and with other encodings."""

import os
import pathlib
import subprocess

import numpy as np
from case import BIN, clicks, cluster_yaml, expect, simurgh, write

HEADER = ["user", "item", "price", "label"]


def rows(count=600):
    user, item, price, hour, label, odds = clicks(count)
    return list(zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))


def read_only(command):
    """Runs a command of the shell where the folder `data` is a read-only mount, if this is allowed."""
    script = (f'mount -t tmpfs tmpfs data && cp train.csv data/ && mount -o remount,ro data && '
              f'{command}')
    return subprocess.run(["unshare", "-m", "bash", "-c", script], capture_output=True, text=True,
                          env={**os.environ, "S": str(BIN / "simurgh")})


os.mkdir("data")
write("train.csv", HEADER, rows())
can_mount = subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
if can_mount:
    os.mkdir("out")
    done = read_only("$S init data/train.csv --output out/x.yaml")
    expect(done.returncode == 0, f"--output in another folder: {done.stdout}{done.stderr}")
    expect(os.path.exists("out/x.train.csv"), "the parts are beside the configuration")
    simurgh("train", "out/x.yaml")
os.rename("train.csv", "z.train.csv")
before = open("z.train.csv").read()
for words in (["z.train.csv", "--output", "z.yaml"],
              ["z.train.csv", "--test", "z.valid.csv", "--output", "z.yaml"]):
    write("z.valid.csv", HEADER, rows(300))
    own = simurgh("init", *words, "--force", code=2)
    expect("would be replaced; use another --output" in own.err and
           open("z.train.csv").read() == before, f"init replaces no file that it reads: {own.err}")
os.rename("z.train.csv", "train.csv")
simurgh("init", "train.csv", "--output", "new/folder/y.yaml")
expect(os.path.exists("new/folder/y.test.csv"), "the folder of --output is made")
for model in ("dcn_v2", "wide_deep", "dlrm"):
    simurgh("train", "new/folder/y.yaml", "--set", f"model={model}", "--set",
            f"checkpoint.directory={model}")
if can_mount:
    os.mkdir("here")
    done = read_only("cd here && $S init ../data/train.csv")
    expect(done.returncode == 0, f"without --output: {done.stdout}{done.stderr}")
    expect("../data cannot be written" in done.stdout, f"a line says where: {done.stdout}")
    expect(os.path.exists("here/train.yaml") and os.path.exists("here/train.test.csv"),
           "the configuration and the parts are in the current folder")
    done = read_only("cd data && $S init train.csv")
    expect(done.returncode == 3 and "--output FOLDER/train.yaml" in done.stderr,
           f"nowhere to write: {done.stdout}{done.stderr}")

random = np.random.default_rng(1)
label = random.integers(0, 2, 120)
numbers = np.round(random.random((120, 9000)), 3)
write("numbers.csv", ["label", "user"] + [f"x{k}" for k in range(9000)],
      [[label[k], f"u{k % 20}"] + list(numbers[k]) for k in range(120)])
made = simurgh("init", "numbers.csv")
expect(os.path.exists("numbers.yaml"), "9,000 columns of numbers and an id are accepted")
text = open("numbers.yaml").read()
expect(1000 < text.count("quantiles: ") < 4096, "some numbers have ranges, up to 4,096 features")
expect(text.count("kind: dense") == 9000, "all numbers are inputs")
ids = random.integers(0, 5, (120, 5000))
write("ids.csv", ["label"] + [f"c{k}" for k in range(5000)],
      [[label[k]] + [f"v{x}" for x in ids[k]] for k in range(120)])
made = simurgh("init", "ids.csv", code=2)
expect("5000 columns of ids; a model has at most 4096" in made.err, f"the limit: {made.err}")
expect("cut -d ',' -f 1-4096 in.csv > out.csv" in made.err, f"a remedy: {made.err}")
expect(not [name for name in os.listdir() if name.startswith("ids.") and name != "ids.csv"],
       "nothing is written")

# Names and texts beyond ASCII are what they are; other encodings than UTF-8 are named.
user, item, price, hour, label, odds = clicks(600)
texts = [[f"用户{user[k]}", f"Größe {item[k]}", price[k], label[k]] for k in range(600)]
names = ["用户", "größe", "价格", "点击"]
write("名.csv", names, texts)
made = simurgh("init", "名.csv", "--label", "点击")
expect("用户 (column_1)" in made.out and "größe (gr_e)" in made.out, made.out)
simurgh("train", "名.yaml")
simurgh("predict", "--model", "名-model", "--input", "名.csv", "--output", "s.csv", "--columns", "用户")
scores = open("s.csv", encoding="utf-8").read().splitlines()
expect(scores[0] == "用户,p" and scores[1].startswith(texts[0][0] + ","), f"{scores[:2]}")
for encoding, file, words in (("gbk", "gbk.csv", "gbk.csv:1: the text is not UTF-8; convert the "
                               "file: iconv -f GBK -t UTF-8 in.csv > out.csv"),
                              ("utf-16", "wide.csv", "iconv -f UTF-16 -t UTF-8"),
                              ("utf-16-le", "plain.csv", "iconv -f UTF-16LE -t UTF-8")):
    write(file, ["用户", "item", "价格", "点击"], [[row[0], f"i{item[k]}", *row[2:]] for k, row in enumerate(texts)],
          encoding=encoding)
    made = simurgh("init", file, code=None)
    expect(made.code in (2, 3) and words in made.err, f"{encoding}: {made.code} {made.err}")
write("latin.csv", ["user", "item", "price", "label"],
      [[f"u{user[k]}", f"é{item[k]}", *row[2:]] for k, row in enumerate(texts)], encoding="latin-1")
made = simurgh("init", "latin.csv", code=2)
expect("latin.csv:2: the text is not UTF-8; convert the file: iconv -f LATIN1" in made.err, made.err)
with open("latin.yaml", "w") as file:
    file.write(cluster_yaml() + """data:
  train: [latin.csv]
  test: [latin.csv]
  columns: [{name: label, kind: label}, {name: user, kind: id}, {name: item, kind: id}]
model: deepfm
checkpoint: {directory: latin-model}
""")
done = simurgh("train", "latin.yaml", "--logs", "logs")
logs = "".join(path.read_text() for path in pathlib.Path("logs").iterdir())
expect("latin.csv:2: the text is not UTF-8" in logs, "training warns of the encoding")
write("marked.csv", HEADER, rows(), encoding="utf-8-sig")
made = simurgh("init", "marked.csv")
expect(made.out.splitlines()[1].startswith("  user "), f"a byte order mark is no name: {made.out}")
