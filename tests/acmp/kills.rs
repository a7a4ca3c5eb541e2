//! Providers and buyers that are killed while a DAG is carried out, at any time and over and over: it comes to the same
//! as ever, and nobody is asked again for what is done. `MOZAIKS_CRASH_ROUNDS` says how often each is tried.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    fs,
    io::Write,
    process::{Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use serde_json::{Value, json};

use super::{
    CARRIERS,
    Carrier::{self, *},
    Serving, read,
};
use crate::{
    crash::{each, recorded},
    harness::{self, Project, Ran},
};

const TASKS: usize = 24;
const CONCURRENCY: usize = 4;

/// Whoever is asked writes down the task's name, and the id it is known by, before doing anything. Where the provider
/// dies first, the request is not whole.
const WORKERS: &str = r#"=== agents.yaml
agents:
  - name: Worker
    capabilities: [work]
    runtime: {kind: command, argv: [sh, worker.sh]}
=== worker.sh
read -r request
case $request in *}) ;; *) exit 1;; esac
id=${request#*\"task_id\":\"} id=${id%%\"*}
name=${request#*\"data\":\"} name=${name%%\"*}
echo "$name $id" >> ../../asked
sleep 0.02
echo "{\"by\": \"$name\"}"
"#;

fn dag() -> Value {
    let name = |n: usize| format!("t{n}");
    let tasks = (0..TASKS).map(|n| {
        json!({
            "task_id": name(n),
            "capability": "work",
            "input": { "type": "text", "data": name(n) },
        })
    });
    let edges = (0..TASKS).flat_map(|n| {
        let before = [n.checked_sub(4), n.checked_sub(7).filter(|_| n % 2 == 0)];
        let before = before.into_iter().flatten();
        before.map(move |it| json!({ "from": name(it), "to": name(n) }))
    });
    let (tasks, edges) = (tasks.collect::<Value>(), edges.collect::<Value>());
    json!({ "dag_id": "dag_1", "tasks": tasks, "edges": edges })
}

/// A DAG, and a provider in another process that carries it out.
struct World {
    project: Project,
    /// Nothing where the buyer starts the provider.
    serving: Option<Serving>,
    /// What was completed at some time, and how many had been asked by then.
    seen: Vec<(BTreeSet<String>, usize)>,
    deaths: usize,
}

const RUN: &[&str] = &["dag", "dag.json", "--acmp", "acmp.json", "--json"];
const RESUME: &[&str] = &["resume", "--json"];

impl World {
    fn new(carrier: Carrier) -> World {
        let project = Project::of(WORKERS);
        project.write("dag.json", dag().to_string());
        let serving = (carrier != Stdio).then(|| Serving::start(&project, None));
        let endpoint = match &serving {
            Some(serving) => carrier.endpoint(&serving.port),
            None => {
                let program = env!("CARGO_BIN_EXE_mozaiks-run");
                let (pids, workflows) = (project.path("pids"), project.path("workflows"));
                let script = format!(
                    "echo $$ >> {}; exec {program} provide W --workflows {}",
                    pids.display(),
                    workflows.display()
                );
                json!({ "kind": "stdio", "argv": ["sh", "-c", script] })
            }
        };
        let acmp = json!({
            "concurrency": CONCURRENCY,
            "retry_limit": 20,
            "retry": { "initial_seconds": 0.01, "max_seconds": 0.1 },
            "providers": [{ "name": "mortal", "endpoint": endpoint, "capabilities": ["work"] }],
        });
        project.write("acmp.json", acmp.to_string());
        World {
            project,
            serving,
            seen: Vec::new(),
            deaths: 0,
        }
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.project.path(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn asked(&self) -> Vec<String> {
        self.lines("asked")
    }

    /// Takes down what is completed. Nobody may be asked for it from now on.
    fn look(&mut self) {
        let recorded = recorded(&self.project);
        self.seen.push((recorded, self.asked().len()));
    }

    /// Ends the provider, and begins another one in its place.
    fn kill_provider(&mut self) {
        self.deaths += 1;
        match self.serving.take() {
            Some(serving) => self.serving = Some(serving.killed_and_started(&self.project)),
            None => {
                if let Some(pid) = self.lines("pids").last() {
                    kill(pid);
                }
            }
        }
    }

    /// Carries on with the DAG. Each time that some more were asked, something happens: to a buyer with this id.
    fn session(
        &mut self,
        arguments: &[&str],
        chance: &mut fastrand::Rng,
        mut happens: impl FnMut(&mut World, u32),
    ) -> Ran {
        let mut command = harness::command(&self.project.path(""), arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = command.spawn().expect("the program is built");
        let id = running.id();
        thread::scope(|scope| {
            let ending = scope.spawn(|| harness::ended(running));
            loop {
                let after = self.asked().len() + chance.usize(1..7);
                while !ending.is_finished() && self.asked().len() < after {
                    thread::yield_now();
                }
                if ending.is_finished() {
                    return ending.join().expect("it ends");
                }
                self.look();
                happens(self, id);
            }
        })
    }

    /// Carries the DAG to its end, and goes on with it whenever the buyer was killed.
    fn sessions(
        &mut self,
        chance: &mut fastrand::Rng,
        mut happens: impl FnMut(&mut World, u32),
    ) -> Ran {
        let mut arguments = RUN;
        loop {
            let ran = self.session(arguments, chance, &mut happens);
            if ran.code != -1 {
                return ran;
            }
            arguments = RESUME;
        }
    }

    /// What is there in the end is what there would be if nobody had died.
    fn check(&self, ran: &Ran, wanted: &Value) {
        if ran.code == 2 && ran.stdout.contains("MZ601") {
            // It died after its end, before it could say what came of it.
            let runs = read(&self.project.run(&["runs", "--json"]).stdout);
            assert_eq!(runs[0]["status"], "completed", "{runs}");
        } else {
            assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
            assert_eq!(read(&ran.stdout)["answer"], *wanted);
        }
        let asked = self.asked();
        for (completed, n) in &self.seen {
            for line in &asked[*n..] {
                let name = line.split(' ').next().unwrap_or_default();
                assert!(!completed.contains(name), "{line} was asked again");
            }
        }
        let names: BTreeSet<_> = asked.iter().map(|it| it.split(' ').next()).collect();
        assert_eq!(names.len(), TASKS);
        // Only what was under way is asked again.
        let most = TASKS + self.deaths * CONCURRENCY;
        assert!(asked.len() <= most, "{} of {most}", asked.len());
    }

    /// By how many ids tasks were asked for.
    fn ids(&self) -> usize {
        self.asked().into_iter().collect::<BTreeSet<_>>().len()
    }
}

fn kill(pid: &str) {
    let mut kill = Command::new("kill");
    // It may have ended in this very moment.
    let _ = kill.args(["-9", pid]).stderr(Stdio::null()).status();
}

/// What it comes to where nobody dies, and nobody else is asked.
fn wanted() -> Value {
    let project = Project::of(WORKERS);
    project.write("dag.json", dag().to_string());
    let ran = project.run(&["dag", "dag.json", "--workflow", "W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    read(&ran.stdout)["answer"].clone()
}

/// Says how many died to whoever reads along with `--nocapture`.
fn tell(who: &str, deaths: usize) {
    writeln!(std::io::stderr(), "{deaths} deaths of {who}").expect("somebody listens");
}

#[test]
fn a_provider_may_die_at_any_time() {
    let wanted = wanted();
    let deaths = AtomicUsize::new(0);
    each(0..6, |n, chance| {
        let mut world = World::new(CARRIERS[n % 3]);
        let ran = world.session(RUN, chance, |world, _| world.kill_provider());
        world.check(&ran, &wanted);
        deaths.fetch_add(world.deaths, Ordering::Relaxed);
    });
    let deaths = deaths.into_inner();
    tell("providers", deaths);
    assert!(deaths >= 12, "{deaths} deaths");
}

#[test]
fn a_buyer_may_die_at_any_time() {
    let wanted = wanted();
    let deaths = AtomicUsize::new(0);
    each(0..6, |n, chance| {
        let mut world = World::new(CARRIERS[n % 3]);
        let ran = world.sessions(chance, |world, buyer| {
            if world.deaths < 4 {
                kill(&buyer.to_string());
                world.deaths += 1;
            }
        });
        world.check(&ran, &wanted);
        // What was under way is asked for with its id, and who lives on knows what came of it.
        assert_eq!(world.ids(), TASKS);
        if world.serving.is_some() {
            assert_eq!(world.asked().len(), TASKS);
        }
        deaths.fetch_add(world.deaths, Ordering::Relaxed);
    });
    let deaths = deaths.into_inner();
    tell("buyers", deaths);
    assert!(deaths >= 12, "{deaths} deaths");
}

#[test]
fn both_may_die_at_any_time() {
    let wanted = wanted();
    each(0..4, |n, chance| {
        let mut world = World::new(CARRIERS[1 + n % 2]);
        let mut whom = chance.fork();
        let ran = world.sessions(chance, |world, buyer| {
            if world.deaths >= 6 {
                return;
            }
            if whom.bool() {
                kill(&buyer.to_string());
                world.deaths += 1;
            }
            if whom.bool() {
                world.kill_provider();
            }
        });
        world.check(&ran, &wanted);
    });
}
