"""Model files that `save_model` would not write, with checksums that are right."""

import hashlib
import io
import json
import zipfile


def forge(path, payload, **changes):
    """Write a model file around any payload, with a checksum that is right."""
    header = {
        "format": "unbag model",
        "format_version": 1,
        "versions": {"unbag": "0"},
        "sha256": hashlib.sha256(payload).hexdigest(),
        "schema": None,
        "metadata": {},
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header | changes))
        archive.writestr("model.skops", payload)
    return path


def forged_skops(state, **members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("schema.json", json.dumps({"protocol": 2, **state}))
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def node(loader, module, name, **content):
    return {"__loader__": loader, "__module__": module, "__class__": name, **content}


def text_node(text):
    return node("JsonNode", "builtins", "str", content=json.dumps(text), is_json=True)


def tuple_node(*items):
    return node("TupleNode", "builtins", "tuple", content=list(items))


def dict_node(**items):
    keys = node("ListNode", "builtins", "list", content=[node("TypeNode", "builtins", "str")])
    return node("DictNode", "builtins", "dict", content=items, key_types=keys)


def change_description(payload, change, **members):
    """The bytes of a model whose description is changed, with more members on request."""
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    state = json.loads(parts.pop("schema.json"))
    change(state["content"]["content"])
    return forged_skops(state, **parts, **members)
