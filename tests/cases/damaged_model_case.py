"""Flipped bits of a manifest, a huge weight of the loss, too little memory, another user's daemons."""

import glob
import os
import shutil
import stat
import subprocess

import case
from case import clicks, expect, program, simurgh, write

user, item, price, hour, label, odds = clicks(1500)
write("clicks.csv", ["user", "item", "price", "label"],
      zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))
simurgh("init", "clicks.csv")
standalone = ["--config", "clicks.yaml", "--standalone", "--set", "checkpoint.directory=model"]
program("nn-worker", *standalone, "--set", "training.epochs=1")
manifest = glob.glob("model/step-*/manifest.json")[0]
with open(manifest, "rb") as file:
    text = file.read()


def with_manifest(changed):
    with open(manifest, "wb") as file:
        file.write(changed)


# A bit of a number in the configuration, in the statistics, in the position and in the checksum.
for place in (b"batch_size", b'"statistics"', b'"position": "', b'"checksum": "'):
    at = next(i for i in range(text.index(place) + len(place), len(text)) if text[i:i + 1].isdigit())
    with_manifest(text[:at] + bytes([text[at] ^ 1]) + text[at + 1:])
    for words in (["predict", "--input", "clicks.test.csv", "--output", "p.csv", "--model", "model"],
                  ["model", "verify", "model"], ["model", "info", "model"]):
        done = simurgh(*words, code=3)
        expect("manifest.json: checksum: it is not that of the text" in done.err,
               f"{words} finds the bit after {place}: {done.err}")
    done = program("nn-worker", *standalone, code=3)
    expect("checksum" in done.all, "training does not go on from it")

# A person changes the manifest on purpose.
with_manifest(text.replace(b'"samples": ', b'"samples":  ', 1))
simurgh("model", "verify", "model", code=3)
sealed = simurgh("model", "seal", "model")
expect(sealed.out.startswith("sealed step-"), sealed.out)
simurgh("model", "verify", "model")
with open(manifest, "rb") as file:
    expect(file.read() == text, "the text is that of the program again")

# A manifest of an older version.
first, second, rest = text.split(b"\n", 2)
with_manifest(first + b"\n" + rest)
done = simurgh("model", "verify", "model")
expect("without a checksum of itself; `simurgh model seal` adds one" in done.err, done.err)
with_manifest(text)

# --set of a key that changes predictions.
predict = ["predict", "--model", "model", "--input", "clicks.test.csv", "--output", "p.csv"]
done = simurgh(*predict, "--set", "data.missing_values=[]")
expect("predictions can differ from those of the training: data.missing_values" in done.err, done.err)
expect("can differ" not in simurgh(*predict).err, "without --set there is no such warning")

# A cell in the middle of a training file, between stop and resume.
big = ["--config", "clicks.yaml", "--standalone", "--set", "checkpoint.directory=big", "--set",
       "data.train=[big.csv]"]
with open("clicks.train.csv", encoding="utf-8") as file:
    header, *lines = file.read().splitlines()
with open("big.csv", "w", encoding="utf-8") as file:
    file.write("\n".join([header] + lines * 12) + "\n")
program("nn-worker", *big, "--set", "training.max_steps=20")
done = program("nn-worker", *big, "--set", "training.max_steps=21")
expect("its modification time" not in done.all, "an unchanged file gives no warning")
with open("big.csv", "r+b") as file:
    content = file.read()
    at = content.index(b"\n", len(content) // 2) + 2
    file.seek(at)
    file.write(b"9" if content[at:at + 1] != b"9" else b"8")
done = program("nn-worker", *big, "--set", "training.max_steps=22")
expect("('big.csv'): its modification time has changed" in done.all,
       done.all[-2000:])

# Gradients whose squares are infinite.
done = program("nn-worker", *standalone[:3], "--set", "checkpoint.directory=huge", "--set",
               "model.loss.positive_weight=1e25", code=3)
expect("that is not finite" in done.all, done.all[-2000:])

# A plug-in that is none.
done = program("nn-worker", *standalone, "--set", "features.0.plugin.path=/etc/passwd",
               "--check-config", code=2)
expect("'/etc/passwd' is not a shared object" in done.err, done.err)

# Too little address space, and too small stacks.
if shutil.which("prlimit"):
    for limit in ("--as=81920000", "--as=92160000", "--as=112640000", "--as=200000000", "--stack=65536"):
        for name, words in (("simurgh", predict), ("nn-worker", standalone),
                            ("embedding-ps", ["--config", "clicks.yaml"]),
                            ("embedding-worker", ["--config", "clicks.yaml"])):
            if not os.path.exists(case.BIN / name):
                continue
            done = subprocess.run(["prlimit", limit, case.BIN / name, *words], capture_output=True)
            remedy = b"(ulimit -v)" if limit.startswith("--as") else b"(ulimit -s)"
            expect(done.returncode == 3 and remedy in done.stderr,
                   f"{name} with {limit}: {done.returncode} {done.stderr}")

# Without a token, a Unix socket is for its user; and a token of zeros is none.
if os.path.exists(case.BIN / "embedding-ps"):
    address = ["--config", "clicks.yaml", "--set", f"embedding_ps.instances.0.address=unix://{os.getcwd()}/s"]
    server = subprocess.Popen([case.BIN / "embedding-ps", *address], umask=0, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, encoding="utf-8")
    expect(any("listening at" in line for line in server.stdout), "the server listens")
    expect(stat.S_IMODE(os.stat("s").st_mode) == 0o600, "its socket has the mode 0600")
    server.terminate()
    server.communicate()
    for token in (b"\0" * 64, b"x" * 64):
        with open(os.open("token", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
            file.write(token)
        done = program("embedding-ps", *address, "--set", "cluster.token_file=token", code=2)
        expect("create it with: head -c 32 /dev/urandom" in done.err, done.err)
