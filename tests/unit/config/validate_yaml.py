"""Validates YAML files with a JSON Schema.

validate_yaml.py SCHEMA FILE...: prints a line for each file: ok, or the key and the rule it breaks.
"""

import json
import re
import sys

import jsonschema
import yaml


class Loader(yaml.SafeLoader):
    """YAML 1.2: only true and false are booleans, 1e-5 is a number."""


Loader.yaml_implicit_resolvers = {
    first: [(tag, rule) for tag, rule in rules if not tag.endswith((":bool", ":float"))]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"))


def check_defaults(schema):
    """Each default is valid for its own schema."""
    if isinstance(schema, list):
        for child in schema:
            check_defaults(child)
    if not isinstance(schema, dict):
        return
    if "default" in schema and "description" in schema and not isinstance(schema["default"], dict):
        jsonschema.validate(schema["default"], schema, cls=jsonschema.Draft202012Validator)
    for child in schema.values():
        check_defaults(child)


with open(sys.argv[1]) as file:
    schema = json.load(file)
jsonschema.Draft202012Validator.check_schema(schema)
check_defaults(schema["properties"])
validator = jsonschema.Draft202012Validator(schema)
for path in sys.argv[2:]:
    with open(path) as file:
        document = yaml.load(file, Loader)
    errors = [".".join(map(str, error.absolute_path)) + ": " + (error.validator or "false")
              for error in validator.iter_errors(document)]
    print("; ".join(sorted(errors)) or "ok")
