"""The header of a proof as JSON Schema, made of the tables of the reader."""

import json
import math

from svmcvx.proofs.format import VERSIONS
from svmcvx.proofs.statement import (
    BLOCKS,
    CELLS,
    FORMULATIONS,
    KERNELS,
    KINDS,
    SCORED,
    SEARCHED,
    SETS,
    TREE,
    Choice,
    dtype_of,
)

NULL = {"type": "null"}


def values(rule):
    """The values of a hyper-parameter or a kernel's parameter."""
    if isinstance(rule, Choice):
        return {"enum": list(rule.names)}
    found = {"type": "integer" if rule.whole else "number"}
    if rule.low > -math.inf:
        found["exclusiveMinimum" if rule.open_low else "minimum"] = rule.low
    if rule.high < math.inf:
        found["exclusiveMaximum" if rule.open_high else "maximum"] = rule.high
    return {"anyOf": [found, {"const": "inf"}]} if rule.unbounded else found


def record(properties):
    """An object with these properties and no others."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": properties,
        "additionalProperties": False,
    }


def described(dtype):
    sizes = {"type": "array", "items": {"type": "integer", "minimum": 0}}
    return record({"dtype": {"const": dtype}, "shape": sizes})


def forms():
    """Rules for the header of each formulation beyond those for all."""
    for name, known in FORMULATIONS.items():
        for form in known.forms:
            rules = {key: values(rule) for key, rule in form.hyperparameters.items()}
            statement = {
                "formulation": {"const": name},
                "hyperparameters": record(rules),
                "intercept": {"enum": list(known.intercepts)},
                "classes": {} if known.several else {"maxItems": 2},
                "kernel": NULL if known.several else {},
            }
            claim = {"kind": {"enum": list(KINDS) if known.counting else ["convex"]}}
            claim |= {} if known.counting else {"stated": NULL}
            parts = {"statement": {"properties": statement}, "claim": {"properties": claim}}
            yield {"properties": parts | ({} if name in SCORED else {"test": False})}


def versions():
    """The version, by the arrays that a file has."""
    rule = {"properties": {"version": {"const": 2}}}
    for number in sorted({*VERSIONS.values()}):
        having = [{"required": [name]} for name, own in VERSIONS.items() if own == number]
        rule = {
            "if": {"properties": {"arrays": {"anyOf": having}}},
            "then": {"properties": {"version": {"const": number}}},
            "else": rule,
        }
    return rule


def header_schema(_=""):
    number = {"anyOf": [{"type": "number"}, NULL]}
    kernels = (
        record({"name": {"const": name}, **{k: values(v) for k, v in rules.items()}})
        for name, rules in KERNELS.items()
    )
    statement = {
        "formulation": {"enum": list(FORMULATIONS)},
        "hyperparameters": {"type": "object"},
        "kernel": {"oneOf": [NULL, *kernels]},
        "intercept": {"enum": ["free", "penalised", "none"]},
        "rows": {"type": "integer", "minimum": 1},
        "columns": {"type": "integer", "minimum": 1},
        "classes": {
            "type": "array",
            "minItems": 2,
            "uniqueItems": True,
            "anyOf": [{"items": {"type": kind}} for kind in ("string", "boolean", "number")],
        },
        "fingerprint": {"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{8}$"},
    }
    kind = {"enum": ["convex", *SEARCHED, "local"]}
    claim = {"lower": number, "upper": number, "kind": kind, "stated": number}
    arrays = {
        "type": "object",
        "properties": {
            name: described(dtype_of(name))
            for name in (
                *("model.support", "dual.code", "scores.label"),
                *(f"tree.{name.rstrip('?')}" for name in {**TREE, **CELLS, **SETS, **BLOCKS}),
            )
        },
        "patternProperties": {
            "^statement\\.|^dual\\.(?!code$)|^model\\.(?!support$)|^scores\\.(?!label$)": described(
                "<f8"
            )
        },
        "additionalProperties": False,
    }
    whole = record(
        {
            "format": {"const": "svmcvx-proof"},
            "version": {"enum": [2, *sorted({*VERSIONS.values()})]},
            "statement": record(statement),
            "claim": record(claim),
            "arrays": arrays,
        }
    )
    whole["properties"]["test"] = record(
        {
            "rows": {"type": "integer", "minimum": 1},
            "digest": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        }
    )
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "header.json of a proof, versions 2 to 4",
        **whole,
        "oneOf": list(forms()),
        **versions(),
    }
    return f"{lines(schema, 3)}\n"


def lines(value, depth, indent=""):
    """JSON with a line for each entry of its first levels."""
    if depth == 0 or not isinstance(value, (dict, list)):
        return json.dumps(value)
    more = indent + " "
    if isinstance(value, list):
        return (
            "[\n"
            + ",\n".join(more + lines(entry, depth - 1, more) for entry in value)
            + f"\n{indent}]"
        )
    entries = (
        f"{more}{json.dumps(key)}: {lines(entry, depth - 1, more)}" for key, entry in value.items()
    )
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
