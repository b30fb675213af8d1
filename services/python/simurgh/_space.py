"""What `simurgh tune` may change: parameters, each with its values and what a value does to a configuration."""

import dataclasses
import re
import typing

import yaml

from ._document import node_of, number_of, schema_at, text_of
from ._library import InvalidError

_NETWORKS = ("deepfm", "dcn_v2", "final_mlp", "mask_net", "wide_deep", "dlrm")  # They read the same inputs.
_TRIED_NETWORKS = ("deepfm", "dcn_v2", "final_mlp", "mask_net")
_LAYERS = {"final_mlp": ("first", "second"), "dlrm": ("top",)}  # Lists of layers; others have `deep`.
_DEFAULT_LAYERS = "[{linear: 64}, relu, {linear: 32}, relu]"
_ACTIVATIONS = ("relu", "tanh", "sigmoid", "gelu", "silu", "prelu", "dice")


@dataclasses.dataclass
class Parameter:
    """Something that trials differ in."""

    name: str
    own: object  # The configuration's value.
    apply: typing.Callable  # Takes a Document and a value other than `own`.
    choices: typing.Optional[list] = None  # None: a range.
    low: float = 0
    high: float = 0
    log: bool = False
    step: object = None
    is_factor: bool = False

    def __post_init__(self):
        if self.choices is not None and self.own not in self.choices:
            self.choices = [self.own, *self.choices]
        self.is_whole = all(isinstance(one, int) for one in (self.low, self.high, self.step or 1))

    def suggest(self, trial):
        """Returns the value that Optuna proposes to a trial."""
        if self.choices is not None:
            return trial.suggest_categorical(self.name, self.choices)
        if self.is_whole:
            return trial.suggest_int(self.name, self.low, self.high, step=self.step or 1, log=self.log)
        value = trial.suggest_float(self.name, self.low, self.high, step=self.step, log=self.log)
        return float(f"{value:.4g}")

    def show(self, value):
        return f"x{value:.4g}" if self.is_factor else f"{value:.4g}" if isinstance(value, float) else str(value)

    def describe(self):
        """Returns the values as a text, equal for equal spaces."""
        return repr(self.choices or (self.low, self.high, self.log, self.step))


class Settings:
    """The values of a configuration, defaults included. known: what `simurgh tune --describe` prints."""

    def __init__(self, document, known, schema):
        self._document = document
        self._schema = schema
        self._tables = {table["name"]: table for table in known["tables"]}
        self._known = {
            "training.batch_size": known["batch_size"],
            "training.dense_optimizer.learning_rate": _short(known["dense_learning_rate"]),
            "training.dense_optimizer.weight_decay": _short(known["dense_weight_decay"]),
        }

    def name_tables(self, document):
        """Adds an entry for the tables that features have by default, so that keys can set them."""
        named = {name for place in range(document.count("tables")) for name in self._names(document, place)}
        rest = [
            name
            for name in self._tables
            if name not in named and not (name.endswith("_weight") and name.removesuffix("_weight") in self._tables)
        ]
        if rest:
            document.set(f"tables.{document.count('tables')}", f"{{names: [{', '.join(rest)}]}}")

    @staticmethod
    def _names(document, place):
        names = document.get(f"tables.{place}.names") or document.get(f"tables.{place}.name")
        return [one.value for one in names.value] if isinstance(names, yaml.SequenceNode) else [names.value] if names else []

    def of(self, key, document=None):
        """Returns the value of a key: a number, or YAML; None if the default has no value."""
        document = document or self._document
        node = document.get(key)
        if node is not None:
            number = number_of(node.value) if isinstance(node, yaml.ScalarNode) else None
            return text_of(node) if number is None else number
        if key in self._known:
            return self._known[key]
        table = re.fullmatch(r"tables\.(\d+)\.(?:optimizer\.)?(dim|learning_rate|weight_decay)", key)
        if table:
            names = self._names(document, table[1])
            return _short(self._tables[names[0]][table[2]]) if names and names[0] in self._tables else None
        default = schema_at(self._schema, key).get("default")
        if isinstance(default, bool):
            return str(default).lower()
        return default if isinstance(default, (int, float, str)) else None

    def keys(self, key, document):
        """Returns the keys that one with N in place of indexes stands for."""
        head, found, tail = re.sub(r"\.N$", ".N.", key).partition(".N.")
        if not found:
            return [key]
        if head == "tables":
            self.name_tables(document)
        keys = [f"{head}.{place}.{tail}".rstrip(".") for place in range(document.count(head))]
        if key == "tables.N.dim":  # Tables of dim 1 have weights, and no vectors.
            keys = [one for one in keys if self.of(one, document) != 1]
        return [each for one in keys for each in self.keys(one, document)]

    def parameter(self, key, values):
        """Returns the parameter of a key of `tune`. values: a list of choices as texts, or a mapping."""
        first = (self.keys(key, self._document.copy()) or [key])[0]
        expanded = self._document.copy()
        self.keys(key, expanded)
        own = self.of(first, expanded)

        def set_all(document, value):
            for one in self.keys(key, document):
                document.set(one, value if isinstance(value, str) else repr(value))

        def multiply(document, value):
            for one in self.keys(key, document):
                base = self.of(one, document)
                product = float(base) * value
                document.set(one, str(max(1, round(product))) if isinstance(base, int) else f"{product:.4g}")

        if not isinstance(values, dict):
            return Parameter(key, "as written" if own is None else own, set_all, [_plain(one) for one in values])
        if not isinstance(own, (int, float)):
            raise InvalidError(f"tune.{key}: a range needs a number as the key's value, not '{own}'; write one into the configuration")
        if "factor" in values:
            factor = values["factor"]
            return Parameter(key, 1.0, multiply, None, 1 / factor, float(factor), True, is_factor=True)
        return Parameter(key, own, set_all, None, values["low"], values["high"], values.get("log", False), values.get("step"))


def _short(number):
    """Returns a number of 32 bits without the digits that 64 bits add."""
    return number if isinstance(number, int) else float(f"{number:.7g}")


def _plain(text):
    number = number_of(text)
    return text if number is None else number


def given_space(document, settings, check):
    """Returns the parameters of the section `tune`; None without one.

    check: raises InvalidError for a Document that is no valid configuration; called for each choice and end of a range.
    """
    node = document.get("tune")
    if not isinstance(node, yaml.MappingNode) or not node.value:
        return None
    parameters = []
    for name, value in node.value:
        if isinstance(value, yaml.SequenceNode):
            values = [text_of(one) for one in value.value]
        else:
            values = {key.value: one.value == "true" if key.value == "log" else number_of(one.value) for key, one in value.value}
        one = settings.parameter(name.value, values)
        for tried in (one.low, one.high) if isinstance(values, dict) else map(_plain, values):
            try:
                one.apply(changed := document.copy(), tried)
                changed.remove("tune")
                check(changed)
            except InvalidError as error:
                raise InvalidError(f"tune.{name.value}: {one.show(tried)} cannot be tried: {error}") from None
        parameters.append(one)
    return parameters


# --- The space of a configuration without a section `tune`.


def _network(document):
    return next((key for key in document.keys("model") if key in _NETWORKS), None)


def _layer_keys(document):
    network = _network(document)
    return [f"model.{network}.{name}" for name in _LAYERS.get(network, ("deep",))] if network else []


def _name_of(layer):
    return layer.value[0][0].value if isinstance(layer, yaml.MappingNode) and layer.value else layer.value


def _layers(document, key):
    node = document.get(key)
    return list(node.value if isinstance(node, yaml.SequenceNode) else node_of(_DEFAULT_LAYERS).value)


def _set_layers(document, key, layers):
    document.set(key, yaml.SequenceNode("tag:yaml.org,2002:seq", layers, flow_style=True))


def _set_network(document, network):
    layers = _layers(document, _layer_keys(document)[0])
    document.remove(f"model.{_network(document)}")
    document.set(f"model.{network}", "{}")
    for key in _layer_keys(document):
        _set_layers(document, key, layers)


def _set_width(document, factor):
    for key in _layer_keys(document):
        layers = _layers(document, key)
        for place, layer in enumerate(layers):
            if _name_of(layer) == "linear":
                width = max(8, 8 * round(int(layer.value[0][1].value) * factor / 8))
                layers[place] = node_of(f"{{linear: {width}}}")
        _set_layers(document, key, layers)


def _set_dropout(document, rate):
    for key in _layer_keys(document):
        layers = []
        for layer in _layers(document, key):
            if _name_of(layer) == "dropout":
                continue
            layers.append(layer)
            if rate > 0 and _name_of(layer) in _ACTIVATIONS:
                layers.append(node_of(f"{{dropout: {rate}}}"))
        _set_layers(document, key, layers)


def _dropout(document):
    for key in _layer_keys(document):
        for layer in _layers(document, key):
            if _name_of(layer) == "dropout":
                return float(layer.value[0][1].value)
    return 0.0


def default_space(document, settings, accepts):
    """Returns the parameters of a configuration without a section `tune`.

    accepts: whether a Document is a valid configuration. Choices that are not are left out.
    """
    batch = settings.of("training.batch_size")
    parameters = [
        settings.parameter("training.dense_optimizer.learning_rate", {"factor": 4}),
        settings.parameter("tables.N.optimizer.learning_rate", {"factor": 4}),
        settings.parameter("training.batch_size", [str(min(65535, max(16, int(batch * one)))) for one in (0.5, 1, 2, 4)]),
        settings.parameter("training.dense_optimizer.weight_decay", ["0", "1e-6", "1e-5", "1e-4"]),
    ]
    vectors = settings.keys("tables.N.dim", expanded := document.copy())
    dims = {settings.of(key, expanded) for key in vectors}
    if len(dims) == 1:
        dim = dims.pop()
        parameters.append(settings.parameter("tables.N.dim", [str(one) for one in (dim // 2, dim, dim * 2) if 2 <= one <= 1024]))

    def decay_of(key):
        return key.removesuffix("dim") + "optimizer.weight_decay"

    def set_decay(changed, value):
        for key in settings.keys("tables.N.dim", changed):
            changed.set(decay_of(key), repr(value))

    if vectors:
        own = settings.of(decay_of(vectors[0]), expanded)
        parameters.append(Parameter("tables.N.optimizer.weight_decay", own, set_decay, [0.0, 1e-6, 1e-5, 1e-4]))
    network = _network(document)
    if network:
        parameters.insert(0, Parameter("network", network, _set_network, list(_TRIED_NETWORKS)))
        parameters.append(Parameter("width", 1.0, _set_width, [0.5, 1.0, 2.0]))
        parameters.append(Parameter("dropout", _dropout(document), _set_dropout, [0.0, 0.1, 0.2, 0.4]))

    kept = []
    for one in parameters:
        if one.choices is None:
            kept.append(one)
            continue
        # Of numbers, one other than the written one stands for all.
        others = [value for value in one.choices if value != one.own]
        tried = others if one.name == "network" else others[-1:]
        refused = []
        for value in tried:
            one.apply(changed := document.copy(), value)
            if not accepts(changed):
                refused.append(value)
        if one.name == "network":
            one.choices = [value for value in one.choices if value not in refused]
        if len(one.choices) > 1 and (one.name == "network" or not refused):
            kept.append(one)
    return kept
