//! What tools print beside their results is kept with their calls.

use super::*;

const FILE: &str = r#"
import asyncio, logging, os, sys, threading, time

print("as the file is read")

def says(what: str):
    print("to the output:", what)
    logging.warning("to the log: %s", what)
    return "said"

def meets(name: str, other: str):
    print(name, "comes")
    open(name, "w").close()
    while not os.path.exists(other): time.sleep(0.005)
    aside = threading.Thread(target=lambda: print(name, "goes"))
    aside.start()
    aside.join()

async def waits(name: str):
    print(name, "waits")
    await asyncio.sleep(0.01)
    os.system("echo and its program 1>&2")

def fails(): print("before it failed"); raise ValueError("no luck")
def hangs(): print("before it hung"); time.sleep(1000)
def tells(): print("the key is", os.environ["TOKEN"], end="")
def quiet(): return 1
def floods():
    for line in range(3000): print("line", line, os.environ["TOKEN"])
    print("the last", file=sys.stderr)
def bursts(): sys.stdout.write("x" * (4 << 20) + "y" * (4 << 20) + " end")
"#;

const KEY: &str = "k-0123456789-abcdefghij";

fn world(tools: Vec<ToolSpec>) -> World {
    world_of(FILE, tools, &[("TOKEN", KEY)], &["TOKEN"])
}

fn functions(names: &[&str]) -> World {
    let known = |name: &&str| ToolSpec {
        // Nothing is asked of the file before the call.
        parameters: Some(Map::new()),
        description: Some(String::new()),
        ..function(name)
    };
    world(names.iter().map(known).collect())
}

impl World {
    async fn made(&self, name: &str, arguments: &str) -> Made {
        let toolbox = self.tools.toolbox("A", given).unwrap();
        toolbox.call(name, arguments, &given()).await
    }

    async fn printed(&self, name: &str, arguments: &str) -> String {
        self.made(name, arguments).await.printed
    }
}

#[tokio::test]
async fn what_a_function_prints_is_kept_with_its_call() {
    let world = functions(&["says", "fails", "tells", "quiet"]);
    let told = world.printed("says", r#"{"what": "ü"}"#).await;
    expect![[r#"
        as the file is read
        to the output: ü
        WARNING:root:to the log: ü
    "#]]
    .assert_eq(&told);
    assert_eq!(world.printed("quiet", "{}").await, "");
    let failed = world.made("fails", "{}").await;
    assert!(failed.came.is_err());
    assert_eq!(failed.printed, "before it failed\n");
    assert_eq!(world.printed("tells", "{}").await, "the key is [key]");
}

#[tokio::test]
async fn calls_side_by_side_print_each_for_itself() {
    let world = functions(&["meets", "waits"]);
    let (a, b) = tokio::join!(
        world.printed("meets", r#"{"name": "a", "other": "b"}"#),
        world.printed("meets", r#"{"name": "b", "other": "a"}"#)
    );
    assert_eq!(a, "as the file is read\na comes\na goes\n");
    assert_eq!(b, "as the file is read\nb comes\nb goes\n");
    let told = world.printed("waits", r#"{"name": "c"}"#).await;
    assert_eq!(told, "c waits\nand its program\n");
}

#[tokio::test]
async fn of_a_call_that_hangs_there_is_what_it_printed() {
    let mut hangs = function("hangs");
    hangs.timeout = Duration::from_millis(1500);
    let argv = ["sh", "-c", "echo before it hung >&2; exec sleep 1000"].map(str::to_owned);
    let mut program = spec("program", Does::Program { argv: argv.into() });
    program.timeout = Duration::from_millis(500);
    let world = world(vec![hangs, program]);
    for name in ["hangs", "program"] {
        let made = world.made(name, "{}").await;
        assert!(made.came.is_err());
        assert!(made.printed.ends_with("before it hung\n"), "{made:?}");
    }
}

#[tokio::test]
async fn much_is_kept_in_part_and_no_part_of_a_key() {
    let world = functions(&["floods", "bursts"]);
    let told = world.printed("floods", "{}").await;
    assert!(told.len() < 10 << 10, "{}", told.len());
    assert!(told.contains("line 0 [key]\nline 1 [key]\n"), "{told}");
    assert!(told.ends_with("line 2999 [key]\nthe last\n"), "{told}");
    assert!(told.contains(" left out]"), "{told}");
    for part in ["k-0", "ghij"] {
        assert!(!told.contains(part), "{told}");
    }
    let told = world.printed("bursts", "{}").await;
    expect![" [8388608 bytes left out] end"].assert_eq(&told);
}

#[tokio::test]
async fn what_a_program_says_beside_its_result_is_kept() {
    let program = |name: &str, script: &str| {
        let argv = ["sh", "-c", script].map(str::to_owned);
        spec(name, Does::Program { argv: argv.into() })
    };
    let world = world(vec![
        program("well", "echo for $TOKEN >&2; echo 1"),
        program("badly", "echo why >&2; exit 3"),
    ]);
    assert_eq!(world.printed("well", "{}").await, "for [key]\n");
    let failed = world.made("badly", "{}").await;
    // It is a part of the error.
    assert_eq!(failed.printed, "");
    let error = failed.came.unwrap_err().0;
    assert_eq!(error, "it ended with exit status: 3; it said: why");
}
