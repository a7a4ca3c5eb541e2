"""Calls the functions of one workflow: a JSON request a line on standard input, a JSON answer a line on standard output.

What the functions print goes to standard error, with a NUL after each call. They are called one after the other, on the main thread.
"""

import asyncio
import copy
import dataclasses
import enum
import importlib
import importlib.util
import inspect
import json
import os
import re
import sys
import threading
import traceback
import types
import typing

FOLDER = os.path.realpath(sys.argv[1])
MAX_BYTES = int(sys.argv[2])
# What is given to a function, and no matter of its caller.
GIVEN = ("context_variables", "runtime", "structured_output")

_modules = {}


class Variables(dict):
    """The run's variables. What a function sets is set in the run, if the function was called for it."""

    set = dict.__setitem__

    @property
    def data(self):
        return self

    def to_dict(self):
        return dict(self)


def load(file, function):
    """The function, of a file in the workflow's folder, or without one of a module."""
    if file is None:
        module, _, function = function.rpartition(".")
        found = importlib.import_module(module)
    else:
        found = _modules.get(file)
        if found is None:
            path = os.path.join(FOLDER, file)
            name = "workflow_tool_" + re.sub(r"\W", "_", file)
            spec = importlib.util.spec_from_file_location(name, path)
            found = importlib.util.module_from_spec(spec)
            # Where dataclasses and models look for the names in their annotations.
            sys.modules[name] = found
            try:
                spec.loader.exec_module(found)
            except BaseException:
                del sys.modules[name]
                raise
            _modules[file] = found
    return getattr(found, function)


def parameters(function):
    """The function's parameters by name, with their annotations."""
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:
        hints = {}
    found = inspect.signature(function).parameters
    return {name: (it, hints.get(name, it.annotation)) for name, it in found.items()}


def describe(function):
    """What a model is told of the function."""
    properties, required, more = {}, [], False
    for name, (it, hint) in parameters(function).items():
        if it.kind is it.VAR_KEYWORD:
            more = True
        elif it.kind is not it.VAR_POSITIONAL and name not in GIVEN:
            properties[name] = schema(hint)
            if it.default is it.empty:
                required.append(name)
            elif it.default is None or isinstance(it.default, (str, int, float, bool)):
                properties[name].setdefault("default", it.default)
    text = (inspect.getdoc(function) or "").strip().split("\n")[0]
    shape = {"type": "object", "properties": properties, "required": required, "additionalProperties": more}
    inner = {}
    hoist(shape, inner)
    if inner:
        shape["$defs"] = inner
    return {"description": text, "parameters": shape}


def hoist(value, inner):
    """Models bring their definitions with them; references look for them at the top."""
    if isinstance(value, dict):
        inner.update(value.pop("$defs", {}))
        value = value.values()
    if not isinstance(value, str) and hasattr(value, "__iter__"):
        for it in list(value):
            hoist(it, inner)


def schema(hint, depth=0):
    """An annotation as JSON Schema. What is not known fits everything."""
    if depth > 8:
        return {}
    plain = {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object", list: "array"}
    plain.update({tuple: "array", set: "array", type(None): "null"})
    if isinstance(hint, type) and hint in plain:
        return {"type": plain[hint]}
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        found = schema(inner[0], depth + 1)
        texts = [it for it in inner[1:] if isinstance(it, str)]
        return {**found, "description": texts[0]} if texts else found
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [schema(it, depth + 1) for it in inner]}
    if origin is not None and isinstance(origin, type):
        if issubclass(origin, typing.get_origin(typing.Mapping)):
            return {"type": "object", "additionalProperties": schema(inner[1], depth + 1) if len(inner) == 2 else {}}
        if issubclass(origin, typing.get_origin(typing.Iterable)):
            return {"type": "array", "items": schema(inner[0], depth + 1) if inner else {}}
    if hasattr(hint, "model_json_schema"):
        return hint.model_json_schema()
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": [it.value for it in hint]}
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        fields = dataclasses.fields(hint)
        missing = dataclasses.MISSING
        due = [it.name for it in fields if it.default is missing and it.default_factory is missing]
        properties = {it.name: schema(hints.get(it.name), depth + 1) for it in fields}
        return {"type": "object", "properties": properties, "required": due}
    return {}


def fitted(hint, value):
    """The value as its parameter's class wants it."""
    if typing.get_origin(hint) is typing.Annotated:
        hint = typing.get_args(hint)[0]
    if hasattr(hint, "model_validate"):
        return hint.model_validate(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        # JSON has one kind of number: 3.0 is an integer.
        return int(value)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return hint(value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return hint(**value)
    return value


def arguments(function, request, variables):
    """What the function is called with. Only a lax call may bring more than it has parameters for."""
    given = {
        "context_variables": variables,
        "runtime": request["runtime"],
        "structured_output": request["arguments"],
    }
    found, takes_all, values = {}, False, dict(request["arguments"])
    for name, (it, hint) in parameters(function).items():
        takes_all = takes_all or it.kind is it.VAR_KEYWORD
        if name in GIVEN:
            found[name] = given[name]
            values.pop(name, None)
        elif name in values:
            found[name] = fitted(hint, values.pop(name))
    if takes_all or not request["lax"]:
        found.update(values)
    return found


def written(value):
    """The value as text: a text as it is, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, default=simpler, ensure_ascii=False, allow_nan=False)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise ValueError(f"the result is {size} bytes long; {MAX_BYTES} are allowed")
    return text


def sendable(answer):
    """The answer as JSON in UTF-8, which has no halves of characters: `\\ud83d` alone becomes U+FFFD."""
    text = json.dumps(answer, ensure_ascii=False)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def simpler(value):
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def told(error):
    """The error for a model: kind, message, and where in the workflow's files, without this machine's folders."""
    text = f"{type(error).__name__}: {error}".replace(FOLDER + os.sep, "")
    frames = traceback.extract_tb(error.__traceback__)
    own = [it for it in frames if it.filename[0] != "<" and os.path.realpath(it.filename).startswith(FOLDER + os.sep)]
    if own:
        file = os.path.relpath(os.path.realpath(own[-1].filename), FOLDER)
        text += f" ({file}, line {own[-1].lineno}, in {own[-1].name})"
    return text[: 16 << 10]


def printed():
    """All that the call has printed is there before its answer."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            # The function has put something else there, or closed it.
            pass
    try:
        os.write(2, b"\0")
    except OSError:
        pass


class Host:
    def __init__(self):
        # The functions may print and read as they like: they do not reach the channel.
        self.input = os.fdopen(os.dup(0), "rb")
        self.output = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self.requests = asyncio.Queue()

    def read(self):
        for line in self.input:
            self.loop.call_soon_threadsafe(self.requests.put_nowait, json.loads(line))
        # Nobody asks any more; what hangs is not waited for.
        os._exit(0)

    def serve(self):
        threading.Thread(target=self.read, daemon=True).start()
        while True:
            # What a function left on the loop goes on meanwhile.
            request = self.loop.run_until_complete(self.requests.get())
            # A function may have set another loop, or none, and gone to another folder.
            asyncio.set_event_loop(self.loop)
            os.chdir(FOLDER)
            answer = self.answer(request)
            if os.getpid() != self.process:
                # The function forked, and its other half answers.
                os._exit(0)
            printed()
            if self.loop.is_closed():
                self.loop, self.requests = asyncio.new_event_loop(), asyncio.Queue()
            try:
                line = sendable(answer)
            except BaseException as error:
                line = sendable({"error": told(error)})
            try:
                self.output.write(line + b"\n")
                self.output.flush()
            except OSError:
                sys.exit("the function closed files that it had not opened")

    def answer(self, request):
        try:
            function = load(request["file"], request["function"])
            if request["do"] == "describe":
                return describe(function)
            return self.call(function, request)
        except BaseException as error:
            return {"error": told(error)}

    def call(self, function, request):
        variables = Variables(request["variables"])
        before = copy.deepcopy(request["variables"])
        asked = None
        if request["do"] == "rewrite":
            asked = Asked(request["runtime"]["agent"], request["system"], variables)
            given = (asked, [{"role": "user", "content": request["user"]}])
            takes = [it for it, _ in parameters(function).values() if it.kind in (it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD)]
            value = function(*given[: len(takes)])
        else:
            value = function(**arguments(function, request, variables))
        if inspect.isawaitable(value):
            value = self.loop.run_until_complete(result_of(value))
        if asked is not None and not isinstance(value, str):
            value = asked.system_message
        changed = {name: it for name, it in variables.items() if name not in before or before[name] != it}
        return {"text": written(value), "is_text": isinstance(value, str), "changed": json.loads(written(changed))}


async def result_of(value):
    return await value


class Asked:
    """The agent whose prompt is built, as prompt functions know it."""

    def __init__(self, name, system, variables):
        self.name = name
        self.system_message = system
        self.context_variables = variables

    def update_system_message(self, text):
        self.system_message = text


host = Host()
# Of a function that hangs there is each line that it has printed.
sys.stdout.reconfigure(line_buffering=True)
sys.path.insert(0, FOLDER)
sys.path.insert(0, os.path.join(FOLDER, "tools"))
host.serve()
