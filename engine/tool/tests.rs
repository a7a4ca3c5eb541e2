//! Tools are called the way a model and a run call them.

use std::{fs, time::Instant};

use expect_test::{Expect, expect};
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{
    compile::tools::ToolSpecs,
    diagnostic::{File, Place},
};

mod interpreters;
mod mcp;
mod printed;

const FILE: &str = r#"
import asyncio, dataclasses, enum, os, sys, threading, time
from typing import Annotated, Literal, Optional

class Colour(enum.Enum):
    RED = "red"

@dataclasses.dataclass
class Point:
    x: int
    y: int = 0

def add(a: int, b: int = 2):
    """Adds two numbers.

    Nothing else."""
    print("not a result")
    return a + b

async def greet(name: Annotated[str, "whom"], how: Literal["hi", "ho"] = "hi", context_variables=None):
    context_variables.set("greeted", name)
    await asyncio.sleep(0)
    return f"{how} {name}, {context_variables.get('input')}"

def point(at: Point, colour: Optional[Colour] = None, names: list[str] = (), more: dict[str, int] = None):
    return {"at": at, "colour": colour}

def until(path):
    for _ in range(4000):
        if os.path.exists(path): return
        time.sleep(0.005)
    raise TimeoutError(path)
def meet(me: str, other: str):
    open(me, "w").close()
    until(other)
    return os.getpid()
async def slowly(me: str, other: str):
    open(me, "w").close()
    for _ in range(4000):
        if os.path.exists(other): return os.getpid()
        await asyncio.sleep(0.005)

def fails(): raise ValueError("no luck in " + __file__)
def leaves(): sys.exit(3)
def dies():
    print("last words", file=sys.stderr, flush=True)
    os._exit(7)
def overflows():
    import ctypes
    ctypes.string_at(0)
def mutes():
    os.closerange(3, 100)
    return 1
def forks():
    if os.fork() == 0: return "child"
    os.wait()
    return "parent"
def leaves_a_child():
    if os.fork() == 0: time.sleep(1000)
    os._exit(5)
def runs(): return asyncio.run(inner())
async def inner(): return "inner"
def closes():
    asyncio.get_event_loop().close()
    os.chdir("/")
    return os.getcwd()
def reads_own(): return open("tools/f.py").readline()
def left():
    threading.Thread(target=lambda: [print("x" * 100) for _ in range(5000)]).start()
    return 1
def floods():
    for _ in range(200): print("x" * 500000)
    return "done"
async def each():
    yield 1
kept = []
def keeps():
    kept.append(1)
    return len(kept)
def hangs(): time.sleep(1000)
async def blocks(): time.sleep(1000)
def odd(): return object()
def deep():
    value = []
    for _ in range(100000): value = [value]
    return value
def huge(): return "x" * (5 << 20)
def long(): return "ä" * 1000
def number(): return float("nan")
def where(): return os.getpid()
def sees(): return sorted(name for name in os.environ if name.startswith("TOOL_"))
def reads(): return sys.stdin.read()
def lax(structured_output, runtime, a, **others): return [structured_output, runtime, a, others]
def half(): return {"k\ud83d": "\ud83d\ude00", "l": "a\udcff"}
def half_fails(): raise ValueError("no \ud83d")
def unwritable(a: Literal[b"x"]): return a
"#;

struct World {
    folder: TempDir,
    tools: Tools,
}

fn spec(name: &str, does: Does) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        agents: vec!["A".to_owned()],
        does,
        description: None,
        parameters: None,
        auto: false,
        bound: true,
        outcome: None,
        timeout: Duration::from_secs(60),
        max_result_bytes: 100,
        at: Place::start_of(&Arc::new(File {
            name: String::new(),
            text: String::new(),
        })),
    }
}

fn function(name: &str) -> ToolSpec {
    let does = Does::Function {
        file: "f.py".to_owned(),
        function: name.to_owned(),
    };
    spec(name, does)
}

fn world(tools: Vec<ToolSpec>) -> World {
    let env = [("TOOL_SEEN", "1"), ("TOOL_SECRET", "2")];
    world_of(FILE, tools, &env, &[])
}

/// One with a file of functions, which may see the first of these variables, and with these for secrets.
fn world_of(
    file: &str,
    tools: Vec<ToolSpec>,
    env: &[(&'static str, &str)],
    secrets: &[&str],
) -> World {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tools")).unwrap();
    fs::write(folder.path().join("tools/f.py"), file).unwrap();
    let specs = ToolSpecs {
        tools,
        env: vec![crate::contract::name::Name::from_static(env[0].0)],
        folder: folder.path().to_owned(),
        project: folder.path().to_owned(),
        ..ToolSpecs::default()
    };
    let path = std::env::var("PATH").unwrap();
    let env = Env::fixed([("PATH", &*path)].into_iter().chain(env.iter().copied()));
    let tools = Tools::new(&specs, Secrets::of(secrets.iter().copied(), &env), &env);
    World { folder, tools }
}

fn given() -> Given {
    Given {
        variables: Map::from_iter([("input".to_owned(), json!("in"))]),
        runtime: Map::from_iter([("agent".to_owned(), json!("A"))]),
    }
}

fn functions(names: &[&str]) -> World {
    world(names.iter().map(|it| function(it)).collect())
}

impl World {
    async fn call(&self, name: &str, arguments: &str) -> String {
        let toolbox = self.tools.toolbox("A", given).unwrap();
        match toolbox.call(name, arguments, &given()).await.came {
            Ok(called) if called.changed.is_empty() => called.text,
            Ok(called) => format!("{} {}", called.text, json!(called.changed)),
            Err(error) => {
                assert!(!error.0.contains(self.folder.path().to_str().unwrap()));
                format!("error: {error}")
            }
        }
    }
}

#[tokio::test]
async fn functions_are_called_by_name_with_what_fits_them() {
    let calls = [
        ("add", r#"{"a": 1}"#),
        ("add", r#"{"a": 1.0, "b": 5}"#),
        ("add", r#"{"a": "x"}"#),
        ("add", r#"{}"#),
        ("add", r#"{"a": 1, "c": 1}"#),
        ("add", "[1]"),
        ("add", "{\"a\": "),
        ("subtract", "{}"),
        ("greet", r#"{"name": "Ada"}"#),
        ("greet", r#"{"name": "Ada", "how": "hu"}"#),
        ("greet", r#"{"name": "Ada", "context_variables": {}}"#),
        ("point", r#"{"at": {"x": 1}, "colour": "red"}"#),
        ("point", r#"{"at": {"y": 1}}"#),
        ("fails", ""),
        ("leaves", ""),
        ("odd", ""),
        ("deep", ""),
        ("huge", ""),
        ("long", ""),
        ("number", ""),
        ("half", ""),
        ("half_fails", ""),
        ("sees", ""),
        ("reads", ""),
        ("nowhere", ""),
    ];
    let names: std::collections::BTreeSet<_> = calls.iter().map(|it| it.0).collect();
    let names: Vec<_> = names.into_iter().filter(|it| *it != "subtract").collect();
    let world = functions(&names);
    let mut text = String::new();
    for (name, arguments) in calls {
        let result = world.call(name, arguments).await;
        // How Python says these differs with its version.
        let is_its_own = matches!(name, "deep" | "number");
        let said = result
            .match_indices(": ")
            .nth(1)
            .map_or(result.len(), |it| it.0);
        let result = if is_its_own { &result[..said] } else { &result };
        text.push_str(&format!("{name} {arguments}: {result}\n"));
    }
    expect![[r#"
        add {"a": 1}: 3
        add {"a": 1.0, "b": 5}: 6
        add {"a": "x"}: error: the arguments of `add` do not fit: /a: "x" is not of type "integer"
        add {}: error: the arguments of `add` do not fit: "a" is a required property
        add {"a": 1, "c": 1}: error: the arguments of `add` do not fit: Additional properties are not allowed ('c' was unexpected)
        add [1]: error: the arguments of `add` do not fit: [1] is not of type "object"
        add {"a": : error: the arguments of `add` are not JSON: EOF while parsing a value at line 1 column 5
        subtract {}: error: there is no tool `subtract`; there is add, deep, fails, greet, half, half_fails, huge, leaves, long, nowhere, number, odd, point, reads, sees
        greet {"name": "Ada"}: hi Ada, in {"greeted":"Ada"}
        greet {"name": "Ada", "how": "hu"}: error: the arguments of `greet` do not fit: /how: "hu" is not one of "hi" or "ho"
        greet {"name": "Ada", "context_variables": {}}: error: the arguments of `greet` do not fit: Additional properties are not allowed ('context_variables' was unexpected)
        point {"at": {"x": 1}, "colour": "red"}: {"at": {"x": 1, "y": 0}, "colour": "red"}
        point {"at": {"y": 1}}: error: the arguments of `point` do not fit: /at: "x" is a required property
        fails : error: ValueError: no luck in tools/f.py (tools/f.py, line 43, in fails)
        leaves : error: SystemExit: 3 (tools/f.py, line 44, in leaves)
        odd : error: TypeError: a object cannot be written as JSON
        deep : error: RecursionError
        huge : error: ValueError: the result is 5242880 bytes long; 4194304 are allowed
        long : ääääääääääääääääääääääääääääääääääääääääääääääääää [cut: 100 of 2000 bytes shown]
        number : error: ValueError
        half : {"k�": "😀", "l": "a�"}
        half_fails : error: ValueError: no � (tools/f.py, line 95, in half_fails)
        sees : ["TOOL_SEEN"]
        reads : 
        nowhere : error: AttributeError: module 'workflow_tool_tools_f_py' has no attribute 'nowhere'
    "#]].assert_eq(&text);
}

#[tokio::test]
async fn a_model_is_told_of_parameters_and_not_of_what_is_given() {
    let world = functions(&["add", "greet", "point"]);
    let definitions = world.tools.toolbox("A", given).unwrap().definitions().await;
    let lines: Vec<String> = definitions
        .unwrap()
        .iter()
        .map(|it| format!("{}: {}\n{}\n", it.name, it.description, it.parameters))
        .collect();
    expect![[r#"
        add: Adds two numbers.
        {"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer","default":2}},"required":["a"],"additionalProperties":false}
        greet: 
        {"type":"object","properties":{"name":{"type":"string","description":"whom"},"how":{"enum":["hi","ho"],"default":"hi"}},"required":["name"],"additionalProperties":false}
        point: 
        {"type":"object","properties":{"at":{"type":"object","properties":{"x":{"type":"integer"},"y":{"type":"integer"}},"required":["x"]},"colour":{"anyOf":[{"enum":["red"]},{"type":"null"}],"default":null},"names":{"type":"array","items":{"type":"string"}},"more":{"type":"object","additionalProperties":{"type":"integer"},"default":null}},"required":["at"],"additionalProperties":false}
    "#]].assert_eq(&lines.concat());
    let world = functions(&["unwritable"]);
    let toolbox = world.tools.toolbox("A", given).unwrap();
    let undefined = toolbox.definitions().await.expect_err("it has no JSON");
    let why = undefined.error.0;
    assert!(why.contains("bytes is not JSON serializable"), "{why}");
    assert!(!undefined.may_come);
}

#[tokio::test]
async fn an_output_brings_more_than_a_function_takes() {
    let mut lax = function("lax");
    lax.max_result_bytes = 1000;
    let world = world(vec![function("add"), lax]);
    let output = json!({ "a": 1, "z": [2] });
    let mut text = String::new();
    for tool in &world.tools.tools {
        let called = tool.run(&output, &given()).await.came.unwrap();
        text.push_str(&format!("{}\n", called.value));
    }
    expect![[r#"
        3
        [{"a":1,"z":[2]},{"agent":"A"},1,{"z":[2]}]
    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn programs_read_arguments_and_print_results() {
    let program = |name: &str, script: &str| {
        let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
        let mut spec = spec(name, Does::Program { argv });
        spec.timeout = Duration::from_secs(if name == "slow" { 1 } else { 60 });
        spec
    };
    let world = world(vec![
        program("echo", "cat"),
        program("fail", "echo why >&2; exit 3"),
        program("slow", "sleep 1000"),
        program("see", "env | grep TOOL_"),
        spec(
            "no",
            Does::Program {
                argv: vec!["./no".to_owned()],
            },
        ),
    ]);
    let mut text = String::new();
    for name in ["echo", "fail", "slow", "see"] {
        let result = world.call(name, r#"{"a": 1}"#).await;
        text.push_str(&format!("{name}: {result}\n"));
    }
    expect![[r#"
        echo: {"a":1}
        fail: error: it ended with exit status: 3; it said: why
        slow: error: no result within 1 seconds
        see: TOOL_SEEN=1
    "#]]
    .assert_eq(&text);
}

#[tokio::test]
async fn a_key_is_hidden_before_a_result_is_cut() {
    let folder = tempfile::tempdir().unwrap();
    let argv = ["sh", "-c", "printf '%s' \"$FIRST$TOKEN\""];
    let argv = argv.map(str::to_owned).to_vec();
    let specs = ToolSpecs {
        tools: vec![ToolSpec {
            max_result_bytes: 8,
            ..spec("say", Does::Program { argv })
        }],
        env: serde_json::from_value(json!(["FIRST", "TOKEN"])).unwrap(),
        folder: folder.path().to_owned(),
        project: folder.path().to_owned(),
        ..ToolSpecs::default()
    };
    let path = std::env::var("PATH").unwrap();
    let env = [
        ("PATH", &*path),
        ("FIRST", "it: "),
        ("TOKEN", "k-0123456789"),
    ];
    let env = Env::fixed(env);
    let tools = Tools::new(&specs, Secrets::of(["TOKEN"], &env), &env);
    let world = World { folder, tools };
    assert_eq!(
        world.call("say", "{}").await,
        "it: [key [cut: 8 of 9 bytes shown]"
    );
}

#[test]
fn what_is_missing_is_found_without_running_anything() {
    let file = |file: &str| Does::Function {
        file: file.to_owned(),
        function: "add".to_owned(),
    };
    let mut odd = function("where");
    odd.parameters = Some(Map::from_iter([("type".to_owned(), json!(3))]));
    let world = world(vec![]);
    #[cfg(unix)]
    std::os::unix::fs::symlink("/etc/hostname", world.folder.path().join("tools/link.py")).unwrap();
    let specs = ToolSpecs {
        tools: vec![
            function("add"),
            function("subtract"),
            spec("a", file("g.py")),
            spec("b", file("tools/f.py")),
            spec("c", file("link.py")),
            odd,
        ],
        folder: world.folder.path().to_owned(),
        project: world.folder.path().to_owned(),
        ..ToolSpecs::default()
    };
    let lines = check(&specs);
    let lines: Vec<_> = lines.iter().map(|it| format!("{}\n", it.message)).collect();
    check_text(
        &lines.concat(),
        expect![[r#"
        the file `f.py` has no function `subtract`
        the file `g.py` of this tool is not there
        the file `link.py` lies outside the workflow's folder
        the parameters of `where` are no JSON Schema: 3 is not valid under any of the schemas listed in the 'anyOf' keyword
    "#]],
    );
}

fn check_text(text: &str, expect: Expect) {
    expect.assert_eq(text);
}
