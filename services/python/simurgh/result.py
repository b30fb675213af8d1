"""The line of metrics with which a training ends."""


def result_of(text):
    """Returns the numbers of a result line, by name."""
    words = text.rstrip("\n").rsplit("\n", 1)[-1].split()
    return {name: _number(value) for name, value in (word.split("=", 1) for word in words if "=" in word)}


def _number(text):
    try:
        return float(text)
    except ValueError:
        return text
