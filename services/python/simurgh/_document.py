"""A configuration as a YAML document whose values have keys as `--set` has them."""

import copy
import os
import pathlib
import re

import yaml

from ._library import InvalidError

_PATH = re.compile(r"\((list of \d+ to \d+ )?(absolute )?paths? of ")  # A type at the end of a description.


def node_of(text):
    """Returns the node of a YAML text, as of a value of --set."""
    return yaml.compose(text, Loader=yaml.SafeLoader) or yaml.ScalarNode("tag:yaml.org,2002:null", "")


def text_of(node):
    """Returns a node as YAML on one line."""
    text = yaml.serialize(node, Dumper=yaml.SafeDumper, width=1 << 30).strip() if node is not None else ""
    if isinstance(node, yaml.ScalarNode):
        return text.removesuffix("\n...")
    return re.sub(r"\s*\n\s*", " ", yaml.serialize(_in_flow(copy.deepcopy(node)), Dumper=yaml.SafeDumper, width=1 << 30)).strip()


def _in_flow(node):
    if isinstance(node, yaml.CollectionNode):
        node.flow_style = True
        for child in node.value:
            for part in child if isinstance(child, tuple) else (child,):
                _in_flow(part)
    return node


def number_of(text):
    """Returns a text as an int or float; None if it is none."""
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            pass
    return None


def schema_at(schema, key):
    """Returns the part of the JSON Schema of configurations that describes a key, or {}."""
    for part in key.split("."):
        if part.isdigit() or part == "N":
            schema = schema.get("items", {})
            continue
        schema = schema.get("else", schema) if "properties" not in schema else schema
        schema = schema.get("properties", {}).get(part, {})
    return schema


class Document:
    """A YAML document. Its comments are lost, its scalars stay as they are written."""

    def __init__(self, text):
        self.root = node_of(text)
        if not isinstance(self.root, yaml.MappingNode):
            self.root = node_of("{}")
        self._expand_model()

    def _expand_model(self):
        model = self.get("model")
        if isinstance(model, yaml.ScalarNode):  # `model: NAME`.
            self.set("model", f"{{{model.value}: {{}}}}")

    def copy(self):
        return copy.deepcopy(self)

    def get(self, key):
        """Returns the node of a key; None if it is absent."""
        node = self.root
        for part in key.split("."):
            node = self._child(node, part)
            if node is None:
                return None
        return node

    @staticmethod
    def _child(node, part):
        if isinstance(node, yaml.MappingNode):
            return next((value for name, value in node.value if name.value == part), None)
        if isinstance(node, yaml.SequenceNode) and part.isdigit() and int(part) < len(node.value):
            return node.value[int(part)]
        return None

    def keys(self, key):
        """Returns the keys below a mapping."""
        node = self.get(key)
        return [name.value for name, _ in node.value] if isinstance(node, yaml.MappingNode) else []

    def count(self, key):
        """Returns the number of elements of a list."""
        node = self.get(key)
        return len(node.value) if isinstance(node, yaml.SequenceNode) else 0

    def number(self, key):
        """Returns the number of a key; None if there is none."""
        node = self.get(key)
        return number_of(node.value) if isinstance(node, yaml.ScalarNode) else None

    def set(self, key, value):
        """Sets a key, as --set does. value: YAML, or a node. Errors: InvalidError for an index beyond the end of a list."""
        if isinstance(value, str):
            try:
                value = node_of(value)
            except yaml.YAMLError:  # An IPv6 address such as [::1]:7401.
                value = yaml.ScalarNode("tag:yaml.org,2002:str", value)
        node, parts = self.root, key.split(".")
        for place, part in enumerate(parts):
            is_last = place + 1 == len(parts)
            fresh = value if is_last else node_of("[]" if parts[place + 1].isdigit() else "{}")
            child = self._child(node, part)
            if isinstance(node, yaml.SequenceNode) and not (part.isdigit() and int(part) <= len(node.value)):
                raise InvalidError(f"{key}: {'.'.join(parts[:place])} has {len(node.value)} elements; use N for all, or a number below that")
            is_empty = isinstance(child, yaml.ScalarNode) and not child.value
            if child is None and isinstance(node, yaml.SequenceNode):
                node.value.append(fresh)
            elif child is None:
                node.value.append((node_of(part), fresh))
            elif is_last or is_empty:
                if isinstance(node, yaml.SequenceNode):
                    node.value[int(part)] = fresh
                else:
                    node.value = [(name, fresh if name.value == part else old) for name, old in node.value]
            node = self._child(node, part)
        if key == "model":
            self._expand_model()

    def remove(self, key):
        section, _, last = key.rpartition(".")
        node = self.get(section) if section else self.root
        if isinstance(node, yaml.MappingNode):
            node.value = [pair for pair in node.value if pair[0].value != last]

    def leaves(self):
        """Returns the texts of all scalars, by key."""
        found = {}

        def walk(node, key):
            if isinstance(node, yaml.MappingNode):
                for name, value in node.value:
                    walk(value, f"{key}.{name.value}" if key else name.value)
            elif isinstance(node, yaml.SequenceNode):
                for place, value in enumerate(node.value):
                    walk(value, f"{key}.{place}")
            else:
                found[key] = node.value

        walk(self.root, "")
        return found

    def move(self, old, new, schema):
        """Changes relative paths of files in folder `old`, so that they are right in folder `new`."""

        def walk(node, part):
            is_path = bool(_PATH.search(part.get("description", "")))
            if isinstance(node, yaml.MappingNode):
                for name, value in node.value:
                    if part is schema and name.value == "tune":
                        walk_choices(value)
                    else:
                        walk(value, schema_at(part, name.value))
            elif isinstance(node, yaml.SequenceNode):
                for value in node.value:
                    walk(value, part if is_path else part.get("items", {}))
            elif is_path and node.value and not os.path.isabs(node.value) and "://" not in node.value:
                node.value = os.path.relpath(os.path.join(old, node.value), new)

        def walk_choices(tune):
            for name, choices in tune.value if isinstance(tune, yaml.MappingNode) else ():
                for choice in choices.value if isinstance(choices, yaml.SequenceNode) else ():
                    walk(choice, schema_at(schema, name.value))

        walk(self.root, schema)

    def write(self, path, comment):
        """Writes the document with a comment above."""
        text = f"# {comment}\n" + yaml.serialize(self.root, Dumper=yaml.SafeDumper, width=110, allow_unicode=True)
        pathlib.Path(path).write_text(text, encoding="utf-8")
