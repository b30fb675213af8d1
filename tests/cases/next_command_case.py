"""What is printed can be pasted, also when paths have blanks: a command after 'next:', a URL."""

import json
import os
import shlex
import subprocess
import urllib.error
import urllib.request

from case import BIN, clicks, expect, simurgh, write

user, item, price, hour, label, odds = clicks(1000)
os.mkdir("my data")
write("my data/clicks (1).csv", ["user", "item", "price", "label"],
      zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))
done = simurgh("init", "my data/clicks (1).csv")
words = shlex.split(done.out.splitlines()[-1])
expect(words[:2] == [str(BIN / "simurgh"), "train"],
       f"the last line is a command to train by the same program: {words}")
expect(os.path.exists(words[2]), f"{words[2]} is the configuration")

simurgh(*words[1:])
server = subprocess.Popen([str(BIN / "simurgh"), "serve", "--model", "my data/clicks (1)-model",
                           "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
line = server.stdout.readline()
url = next((word for word in line.split() if word.startswith("http://")), "")
expect(url.endswith("/v2/models/clicks%20%281%29-model"), f"blanks of the URL are encoded: {line}")
name = ""
for _ in range(10_000):  # 503 until the model is loaded.
    try:
        with urllib.request.urlopen(url) as answer:
            name = json.load(answer)["name"]
        break
    except urllib.error.HTTPError as error:
        if error.code != 503:
            expect(False, f"{url}: {error}")
            break
expect(name == "clicks (1)-model", f"the URL is that of the model: {name}")
server.terminate()
server.wait()
