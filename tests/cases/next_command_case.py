"""The command after 'next:' can be pasted into a shell, also when paths have blanks."""

import os
import shlex

from case import clicks, expect, simurgh, write

user, item, price, hour, label, odds = clicks(1000)
os.mkdir("my data")
write("my data/clicks (1).csv", ["user", "item", "price", "label"],
      zip([f"u{x}" for x in user], [f"i{x}" for x in item], price, label))
done = simurgh("init", "my data/clicks (1).csv")
words = shlex.split(done.out.splitlines()[-1])
expect(words[:2] == ["simurgh", "train"], f"the last line is a command to train: {words}")
expect(os.path.exists(words[2]), f"{words[2]} is the configuration")
