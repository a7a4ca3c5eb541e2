//! Reads a workflow's folder.
//!
//! **Invariant:** in a [`Bundle`] every file was read, is YAML, and fits its JSON Schema.
//! **Invariant:** all files are read before anything is said, so that one pass names every mistake.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::de::DeserializeOwned;

use crate::{
    contract::{
        acmp::Acmp,
        agents::{Agent, Agents},
        context_variables::ContextVariables,
        middleware::Middleware,
        orchestrator::Orchestrator,
        providers::Providers,
        structured_outputs::StructuredOutputs,
        task_batches::TaskBatches,
        test::Test,
        tools::Tools,
        transition_graph::TransitionGraph,
        ui_config::UiConfig,
    },
    diagnostic::{Code, Diagnostic, File, Place, closest},
    schema::FileKind,
    source::{self, Source},
};

mod misnamed;

/// Where workflows lie.
#[derive(Debug, Clone)]
pub struct Project {
    /// The folder that has the `workflows` folder in it.
    pub root: PathBuf,
    pub workflows: PathBuf,
}

/// A workflow's folder, as read.
#[derive(Debug)]
pub struct Bundle {
    pub name: String,
    pub folder: PathBuf,
    pub project: Project,
    pub task_batches: Part<TaskBatches>,
    pub agents: Part<Agents>,
    /// Agents of the project's `agents` folder that this workflow names and does not define.
    pub shared_agents: BTreeMap<String, Part<Agent>>,
    /// `providers.yaml` of the project.
    pub shared_providers: Option<Part<Providers>>,
    pub orchestrator: Part<Orchestrator>,
    pub transition_graph: Option<Part<TransitionGraph>>,
    pub context_variables: Option<Part<ContextVariables>>,
    pub structured_outputs: Option<Part<StructuredOutputs>>,
    pub tools: Option<Part<Tools>>,
    pub middleware: Option<Part<Middleware>>,
    pub acmp: Part<Acmp>,
    /// The DAG that this workflow is. Whether it is one, `dag` finds out.
    pub task_dag: Option<Source>,
}

impl Bundle {
    /// The files that may name a variable of the environment.
    pub fn naming_variables(&self) -> impl Iterator<Item = &Arc<File>> {
        let own = [&self.agents.source, &self.orchestrator.source];
        let tools = self.tools.iter().map(|it| &it.source);
        let shared = self.shared_agents.values().map(|it| &it.source);
        let providers = self.shared_providers.iter().map(|it| &it.source);
        let all = own.into_iter().chain(tools).chain(shared).chain(providers);
        all.chain([&self.acmp.source]).map(|it| &it.file)
    }
}

/// A file and what it says.
#[derive(Debug)]
pub struct Part<T> {
    pub value: T,
    pub source: Source,
    /// The folder it lies in.
    pub folder: PathBuf,
}

impl<T> Part<T> {
    pub fn at(&self, pointer: &str) -> Place {
        self.source.place(pointer)
    }

    pub fn key_at(&self, pointer: &str) -> Place {
        self.source.key_place(pointer)
    }
}

impl Project {
    /// The nearest folder, from `here` upwards, that has a `workflows` folder; or the one given.
    ///
    /// # Errors
    /// A diagnostic that says where it looked.
    pub fn find(here: &Path, workflows: Option<&Path>) -> Result<Project, Diagnostic> {
        if let Some(workflows) = workflows {
            if !workflows.is_dir() {
                let message = format!("there is no folder `{}`", workflows.display());
                return Err(Diagnostic::error(Code::NoWorkflow, message)
                    .help("`--workflows` names the folder that has one folder a workflow"));
            }
            let root = match workflows.parent() {
                Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
                Some(parent) => parent.to_owned(),
                None => workflows.to_owned(),
            };
            let workflows = workflows.to_owned();
            return Ok(Project { root, workflows });
        }
        let root = here.ancestors().find(|it| it.join("workflows").is_dir());
        match root {
            Some(root) => Ok(Project {
                root: root.to_owned(),
                workflows: root.join("workflows"),
            }),
            None => {
                let message = format!("no `workflows` folder in `{}` or above it", here.display());
                Err(Diagnostic::error(Code::NoWorkflow, message).help(
                    "make one with `mozaiks-run init NAME`, or name it with `--workflows DIR`",
                ))
            }
        }
    }

    /// The names of the workflows there are, in order.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.workflows)
            .into_iter()
            .flatten()
            .flatten();
        let folders = entries.filter(|it| it.path().is_dir());
        let mut names: Vec<String> = folders
            .filter_map(|it| it.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// A path as people would write it: relative to the project's folder where it lies in it.
    pub fn shown(&self, path: &Path) -> String {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        path.to_string_lossy().replace('\\', "/")
    }
}

/// Reads every file of a workflow.
///
/// Gives a bundle only if no file has a mistake; warnings come with it.
pub fn load(project: &Project, name: &str) -> (Option<Bundle>, Vec<Diagnostic>) {
    let folder = project.workflows.join(name);
    let is_one_name =
        Path::new(name).components().count() == 1 && !name.contains(['/', '\\']) && name != "..";
    if !is_one_name || !folder.is_dir() {
        return (None, vec![no_workflow(project, name)]);
    }
    let mut reader = Reader {
        project,
        folder: &folder,
        diagnostics: Vec::new(),
    };
    let task_batches = reader.part::<TaskBatches>(FileKind::TaskBatches);
    let agents = reader.part::<Agents>(FileKind::Agents);
    let orchestrator = reader.part::<Orchestrator>(FileKind::Orchestrator);
    let transition_graph = reader.part::<TransitionGraph>(FileKind::TransitionGraph);
    let context_variables = reader.part::<ContextVariables>(FileKind::ContextVariables);
    let structured_outputs = reader.part::<StructuredOutputs>(FileKind::StructuredOutputs);
    let tools = reader.part::<Tools>(FileKind::Tools);
    let middleware = reader.part::<Middleware>(FileKind::Middleware);
    let acmp = reader.part::<Acmp>(FileKind::Acmp);
    let task_dag = reader.dag();
    let ui_config = reader.part::<UiConfig>(FileKind::UiConfig);
    let shared_providers = project.root.join("providers.yaml");
    let shared_providers = reader.read::<Providers>(FileKind::Providers, &shared_providers);
    // The tasks of a DAG may all be carried out by others.
    if matches!(
        (&task_batches, &agents, &task_dag),
        (Ok(None), Ok(None), Ok(None))
    ) {
        let message = format!(
            "`{name}` has neither `agents.yaml` nor `task_batches.yaml` or `task_dag.yaml` in `extended_orchestration`"
        );
        let help = "the smallest workflow has `agents.yaml` and `extended_orchestration/task_batches.yaml`: see `mozaiks-run init --help`; one of a DAG has `extended_orchestration/task_dag.yaml`, and `agents.yaml` or providers in `acmp.yaml`";
        reader
            .diagnostics
            .push(Diagnostic::error(Code::NoWorkflow, message).help(help));
    }
    let parts = (|| {
        // It changes nothing here, but its mistakes count.
        ui_config.ok()?;
        Some(Bundle {
            name: name.to_owned(),
            folder: folder.clone(),
            project: project.clone(),
            task_batches: task_batches
                .ok()?
                .unwrap_or_else(|| absent(project, &folder, FileKind::TaskBatches)),
            agents: agents
                .ok()?
                .unwrap_or_else(|| absent(project, &folder, FileKind::Agents)),
            shared_agents: BTreeMap::new(),
            shared_providers: shared_providers.ok()?,
            orchestrator: orchestrator
                .ok()?
                .unwrap_or_else(|| absent(project, &folder, FileKind::Orchestrator)),
            transition_graph: transition_graph.ok()?,
            context_variables: context_variables.ok()?,
            structured_outputs: structured_outputs.ok()?,
            tools: tools.ok()?,
            middleware: middleware.ok()?,
            acmp: acmp
                .ok()?
                .unwrap_or_else(|| absent(project, &folder, FileKind::Acmp)),
            task_dag: task_dag.ok()?,
        })
    })();
    let mut diagnostics = reader.diagnostics;
    diagnostics.extend(misnamed::of_workflow(project, &folder));
    diagnostics.extend(misnamed::of_tests(project, &folder.join("tests")));
    let Some(mut bundle) = parts.filter(|_| !diagnostics.iter().any(Diagnostic::is_error)) else {
        return (None, diagnostics);
    };
    bundle.read_shared_agents(&mut diagnostics);
    let is_whole = !diagnostics.iter().any(Diagnostic::is_error);
    (is_whole.then_some(bundle), diagnostics)
}

impl Bundle {
    /// The agent with this name, and where it is defined: the file's part, and the pointer in it.
    pub fn agent(&self, name: &str) -> Option<(&Agent, &Source, String, &Path)> {
        let own = self.agents.value.agents.iter();
        if let Some((ix, agent)) = own.enumerate().find(|(_, it)| it.name.as_str() == name) {
            return Some((
                agent,
                &self.agents.source,
                format!("/agents/{ix}"),
                &self.folder,
            ));
        }
        let shared = self.shared_agents.get(name)?;
        Some((&shared.value, &shared.source, String::new(), &shared.folder))
    }

    /// All agents this workflow can name.
    pub fn agent_names(&self) -> Vec<String> {
        let own = self
            .agents
            .value
            .agents
            .iter()
            .map(|it| it.name.to_string());
        own.chain(self.shared_agents.keys().cloned()).collect()
    }

    /// Every agent that a file of this workflow names, whether it is defined or not.
    fn named_agents(&self) -> Vec<String> {
        let batches = &self.task_batches.value;
        let mut names: Vec<&str> = Vec::new();
        for batch in &batches.batches {
            names.push(&batch.trigger_agent);
            names.extend(batch.allowed_execution_agents.iter().map(AsRef::as_ref));
        }
        for conveyor in &batches.conveyors {
            names.push(&conveyor.decomposition_agent);
            names.extend(conveyor.execution_agents.iter().map(AsRef::as_ref));
        }
        names.extend(self.orchestrator.value.initial_agent.as_deref());
        for rule in self
            .transition_graph
            .iter()
            .flat_map(|it| &it.value.transition_rules)
        {
            names.extend([&*rule.source_agent, &*rule.target_agent]);
        }
        names.into_iter().map(str::to_owned).collect()
    }

    fn read_shared_agents(&mut self, diagnostics: &mut Vec<Diagnostic>) {
        let folder = self.project.root.join("agents");
        for name in self.named_agents() {
            let is_known = self.agent(&name).is_some();
            let is_file_name = !name.contains(['/', '\\', '\0']) && !name.starts_with('.');
            let path = folder.join(format!("{name}.yaml"));
            if is_known || !is_file_name || !path.is_file() {
                continue;
            }
            let mut reader = Reader {
                project: &self.project,
                folder: &folder,
                diagnostics: Vec::new(),
            };
            let part = reader.read::<Agent>(FileKind::Agent, &path);
            diagnostics.append(&mut reader.diagnostics);
            let Ok(Some(part)) = part else { continue };
            if part.value.name.as_str() != name {
                let message = format!(
                    "the file of `{name}` defines an agent named `{}`",
                    part.value.name
                );
                let help = format!("a shared agent's file has its name: write `name: {name}`");
                diagnostics.push(
                    Diagnostic::error(Code::NameMismatch, message)
                        .at(part.at("/name"))
                        .help(help),
                );
            }
            self.shared_agents.insert(name, part);
        }
    }
}

struct Reader<'a> {
    project: &'a Project,
    folder: &'a Path,
    diagnostics: Vec<Diagnostic>,
}

/// The tests of a workflow, `tests/*.yaml`, by name.
///
/// # Errors
/// What is wrong with any of them.
pub fn tests(bundle: &Bundle) -> Result<Vec<(String, Part<Test>)>, Vec<Diagnostic>> {
    let folder = bundle.folder.join("tests");
    let listed = fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = listed.map(|it| it.path()).collect();
    paths.retain(|it| it.extension().is_some_and(|it| it == "yaml"));
    paths.sort();
    let mut reader = Reader {
        project: &bundle.project,
        folder: &folder,
        diagnostics: Vec::new(),
    };
    let mut tests = Vec::new();
    for path in paths {
        if let Ok(Some(part)) = reader.read::<Test>(FileKind::Test, &path) {
            let name = path.file_stem().unwrap_or_default();
            tests.push((name.to_string_lossy().into_owned(), part));
        }
    }
    match reader.diagnostics.iter().any(Diagnostic::is_error) {
        true => Err(reader.diagnostics),
        false => Ok(tests),
    }
}

/// The file has mistakes, which were noted.
struct Noted;

impl Reader<'_> {
    /// Reads a file if it is there.
    fn part<T: DeserializeOwned>(&mut self, kind: FileKind) -> Result<Option<Part<T>>, Noted> {
        let path = kind.path().expect("a part of a bundle has a path");
        let path = self.folder.join(path);
        self.read(kind, &path)
    }

    /// A DAG may come from another program, so it may be JSON as well.
    fn dag(&mut self) -> Result<Option<Source>, Noted> {
        let path = FileKind::TaskDag.path().expect("a DAG has a path");
        let path = self.folder.join(path);
        let as_json = path.with_extension("json");
        match (self.source(&path)?, self.source(&as_json)?) {
            (Some(yaml), Some(_)) => {
                let message = "this workflow has its DAG twice, as YAML and as JSON";
                let at = yaml.place("");
                self.note(Diagnostic::error(Code::DuplicateName, message).at(at))
            }
            (yaml, json) => Ok(yaml.or(json)),
        }
    }

    fn read<T: DeserializeOwned>(
        &mut self,
        kind: FileKind,
        path: &Path,
    ) -> Result<Option<Part<T>>, Noted> {
        let Some(source) = self.source(path)? else {
            return Ok(None);
        };
        let (value, diagnostics) = kind.schema().read(&source);
        self.diagnostics.extend(diagnostics);
        let folder = path.parent().unwrap_or(self.folder).to_owned();
        match value {
            Some(value) => Ok(Some(Part {
                value,
                source,
                folder,
            })),
            None => Err(Noted),
        }
    }

    /// A file's text as YAML or JSON, if it is there.
    fn source(&mut self, path: &Path) -> Result<Option<Source>, Noted> {
        let name = self.project.shown(path);
        let bytes = match read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let message = format!("cannot read `{name}`: {error}");
                return self.note(Diagnostic::error(Code::Unreadable, message));
            }
        };
        let file = match source::decode(&name, bytes) {
            Ok(file) => file,
            Err(diagnostic) => return self.note(diagnostic),
        };
        let parsed = match name.ends_with(".json") {
            true => Source::parse_json(&file),
            false => Source::parse(&file),
        };
        match parsed {
            Ok(source) => Ok(Some(source)),
            Err(diagnostic) => self.note(diagnostic),
        }
    }

    fn note<T>(&mut self, diagnostic: Diagnostic) -> Result<T, Noted> {
        self.diagnostics.push(diagnostic);
        Err(Noted)
    }
}

/// A file of a bundle. What is neither a file nor a folder may keep whoever reads it waiting.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let kind = fs::metadata(path)?.file_type();
    match kind.is_file() || kind.is_dir() {
        true => read_bounded(path),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// A file, or as much of it as is needed to see that it is too large.
///
/// # Errors
/// It cannot be read.
pub fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path)?;
    file.take(source::MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a file that is not there says: nothing.
fn absent<T: Default>(project: &Project, folder: &Path, kind: FileKind) -> Part<T> {
    let path = folder.join(kind.path().expect("a part of a bundle has a path"));
    let name = project.shown(&path);
    let text = String::new();
    let file = Arc::new(File { name, text });
    let source = Source::parse(&file).expect("nothing is YAML");
    Part {
        value: T::default(),
        source,
        folder: folder.to_owned(),
    }
}

fn no_workflow(project: &Project, name: &str) -> Diagnostic {
    let names = project.names();
    let message = format!(
        "there is no workflow `{name}` in `{}`",
        project.workflows.display()
    );
    let diagnostic = Diagnostic::error(Code::NoWorkflow, message)
        .found(name)
        .allowed(&names);
    match closest(name, &names) {
        Some(_) => diagnostic,
        None => diagnostic.help("make it with `mozaiks-run init NAME`"),
    }
}
