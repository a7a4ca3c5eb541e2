//! Whether the author's Python files compile: asked of the interpreter, which compiles their text and runs nothing of it.
//!
//! **Invariant:** no program of the workflow's own is started, not even an interpreter that lies in its folder.

use std::{
    collections::BTreeMap, fs::File, io::Read, path::Path, sync::Arc, thread, time::Duration,
};

use serde::Deserialize;
use serde_json::json;
use tokio::{runtime, time::timeout};

use super::{
    check::find,
    python::{Python, USUAL, VARIABLE},
};
use crate::{
    child::{self, Ends, Program, env::Env},
    compile::tools::{Does, ToolSpecs},
    diagnostic::{self, Code, Diagnostic, Place},
};

/// How many bytes of files are looked at, and how long that may take.
const MAX_BYTES: usize = 4 << 20;
const LIMIT: Duration = Duration::from_secs(5);

/// Reads texts by the names of their files, and prints what is wrong with them.
const COMPILE: &str = r#"
import json, sys, warnings
warnings.simplefilter("ignore")
faults = []
for name, text in json.load(sys.stdin).items():
    try:
        compile(text, name, "exec", dont_inherit=True)
    except SyntaxError as error:
        faults.append({"file": name, "line": error.lineno, "column": error.offset, "message": error.msg})
    except Exception:
        pass
json.dump(faults, sys.stdout)
"#;

/// What is wrong with a file. Lines and columns are from 1.
#[derive(Deserialize)]
struct Wrong {
    file: String,
    line: Option<usize>,
    column: Option<usize>,
    message: String,
}

/// The files that are there, by the names that people know them by, each with where another file names it.
type Texts = BTreeMap<String, (Arc<diagnostic::File>, Place)>;

/// Warns of Python files that do not compile, and of an interpreter that is not there. Another machine may have one, or
/// one of another version.
pub(super) fn check(specs: &ToolSpecs) -> Vec<Diagnostic> {
    let texts = texts(specs);
    let Some((_, first)) = texts.values().next() else {
        return Vec::new();
    };
    let python = Env::Process.text(VARIABLE);
    let argv = [
        python.as_deref().unwrap_or(USUAL),
        // Neither folders nor variables decide what it imports.
        "-I",
        "-S",
        "-B",
        "-X",
        "utf8",
        "-c",
        COMPILE,
    ];
    let argv = argv.map(str::to_owned);
    let program = Program::new(&argv, &[], None, &specs.project, &Env::Process);
    if let Some(why) = program.missing() {
        if Python::own(specs).is_some() {
            return Vec::new();
        }
        let message = format!(
            "`{}` cannot be started here, and so no Python function: {why}",
            argv[0]
        );
        let help = format!("install Python, or name an interpreter by `{VARIABLE}`");
        let fault = Diagnostic::warning(Code::MissingProgram, message);
        return vec![fault.at(first.clone()).help(help)];
    }
    let input = texts.iter().map(|(name, (file, _))| (name, &file.text));
    let input = json!(input.collect::<BTreeMap<_, _>>()).to_string();
    // On a thread of its own: whoever asks may be on a runtime.
    let wrong = thread::scope(|it| it.spawn(|| ask(&program, input)).join());
    let wrong = wrong.ok().flatten().unwrap_or_default();
    let faults = wrong.iter().filter_map(|it| {
        let (file, at) = texts.get(&it.file)?;
        let message = format!("Python cannot compile this file: {}", it.message);
        let fault = Diagnostic::warning(Code::PythonSyntax, message).at(it.place(file));
        Some(fault.related(at.clone(), "a function of it is named here"))
    });
    faults.collect()
}

fn texts(specs: &ToolSpecs) -> Texts {
    let tools = specs.tools.iter();
    let tools = tools.chain(specs.lifecycle.iter().map(|it| &it.tool));
    let named = tools.filter_map(|it| match &it.does {
        Does::Function { file, .. } => Some((file, &it.at)),
        _ => None,
    });
    let prompts = specs.prompts.iter();
    let prompts = prompts.filter_map(|it| Some((it.file.as_ref()?, &it.at)));
    let mut room = MAX_BYTES;
    let mut texts = Texts::new();
    for (file, at) in named.chain(prompts) {
        let Ok(found) = find(&specs.folder, file) else {
            continue;
        };
        // It lies below the file that names it.
        let name = Path::new(&at.file.name).with_file_name(&found);
        let name = name.to_string_lossy().replace('\\', "/");
        if texts.contains_key(&name) {
            continue;
        }
        let mut text = String::new();
        let opened = File::open(specs.folder.join(&found));
        let read = opened.and_then(|it| it.take(room as u64 + 1).read_to_string(&mut text));
        if read.is_err() || text.len() > room {
            continue;
        }
        room -= text.len();
        let text = text.trim_start_matches('\u{feff}').to_owned();
        let file = Arc::new(diagnostic::File {
            name: name.clone(),
            text,
        });
        texts.insert(name, (file, at.clone()));
    }
    texts
}

/// What the interpreter says, if it says anything in time.
fn ask(program: &Program, input: String) -> Option<Vec<Wrong>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let mut said = Ends::default();
    let asked = async { timeout(LIMIT, child::run(program, input, MAX_BYTES, &mut said)).await };
    let ended = runtime.ok()?.block_on(asked).ok()?.ok()?;
    serde_json::from_slice(&ended.stdout).ok()
}

impl Wrong {
    /// Where it is, as far as the interpreter knows.
    fn place(&self, file: &Arc<diagnostic::File>) -> Place {
        let lines = self.line.unwrap_or(1).saturating_sub(1);
        let mut rest = file.text.split_inclusive('\n');
        let start: usize = rest.by_ref().take(lines).map(str::len).sum();
        let line = rest
            .next()
            .unwrap_or_default()
            .trim_end_matches(['\r', '\n']);
        let column = self.column.unwrap_or(1).saturating_sub(1);
        let within = line
            .char_indices()
            .nth(column)
            .map_or(line.len(), |it| it.0);
        let at = start + within;
        Place {
            file: Arc::clone(file),
            span: at..at,
        }
    }
}
