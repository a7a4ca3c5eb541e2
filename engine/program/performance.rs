//! `mozaiks-run WORKFLOW`: runs it.

use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use super::{
    Faults, Found, args,
    inputs::Inputs,
    places, project, refuse,
    session::{self, Header, Ready, unpriced},
    show,
    tape::{self, Tape},
    terminal::{From, Terminal},
    workflow_of,
};
use crate::{
    agent::human::People,
    journal::NewRun,
    load::Project,
    recording::{Recorder, Replay},
    run::{Log, now_ms},
};

pub(super) fn run(args: &args::Run) -> anyhow::Result<u8> {
    let name = args.workflow.as_deref().unwrap_or_default();
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let found = match workflow_of(&project, name, &Inputs::default()) {
        Ok(found) => found,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let replay = args
        .replay
        .as_deref()
        .map(|it| tape::read(it, it.display().to_string(), name));
    let replay = match replay.transpose() {
        Ok(replay) => replay,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let inputs = match Inputs::read(&args.given, args.plan.as_deref()) {
        Ok(inputs) => inputs,
        Err(faults) => return refuse(&faults, &args.common),
    };
    // Without an input of its own, a replayed run is given what the recorded one was.
    let inputs = match &replay {
        Some(replay) if inputs == Inputs::default() => Inputs::recorded(replay),
        _ => inputs,
    };
    let tapes = Tapes {
        record: args.record.as_deref(),
        replay: args.replay.as_deref().zip(replay),
    };
    begin(
        &project,
        found,
        inputs,
        (tapes, From::of(&args.session, Some(&args.given))),
        (&args.session, &args.common),
    )
}

/// Where a run is recorded to, or what it is a replay of.
#[derive(Default)]
pub(super) struct Tapes<'a> {
    record: Option<&'a Path>,
    replay: Option<(&'a Path, Arc<Replay>)>,
}

/// Begins a run, and carries it to the end of this session.
pub(super) fn begin(
    project: &Project,
    (bundle, mut workflow, warnings): Found,
    inputs: Inputs,
    (tapes, answers): (Tapes<'_>, From),
    (session, common): (&args::Session, &args::Common),
) -> anyhow::Result<u8> {
    let name = workflow.name.to_string();
    if session.verbose && !common.json {
        show(&warnings, common)?;
    } else if !warnings.is_empty() && !session.quiet && !common.json {
        let check = match inputs.dag {
            Some(_) => "--check".to_owned(),
            None => format!("mozaiks-run check {name}"),
        };
        writeln!(
            io::stderr(),
            "{} ({check} shows them)",
            crate::diagnostic::summary(&warnings)
        )?;
    }
    let (context, plan) = match inputs.prepare(&workflow) {
        Ok(prepared) => prepared,
        Err(faults) => return refuse(&faults, common),
    };
    let taken = [
        places::out(session).err(),
        tapes.record.and_then(|it| places::record(it).err()),
    ];
    let taken: Faults = taken.into_iter().flatten().map(|it| *it).collect();
    if !taken.is_empty() {
        return refuse(&taken, common);
    }
    let replayed = tapes.replay.as_ref().map(|it| it.0);
    let replayed = replayed.map(std::path::absolute).transpose()?;
    let tape = match (tapes.replay, tapes.record) {
        (Some((_, replay)), _) => Tape::Replay(replay),
        (None, None) => Tape::None,
        (None, Some(path)) => {
            let run = (&*name, serde_json::to_value(&inputs)?);
            Tape::Record(Recorder::create(path, super::keys(&workflow), run)?)
        }
    };
    let terminal = Arc::new(Terminal::new(answers));
    let people: Arc<dyn People> = terminal.clone();
    let agents = match tape.agents(&mut workflow, &people, plan.is_some()) {
        Ok(agents) => agents,
        Err(faults) => return refuse(&faults, common),
    };
    let budget = session.budget();
    let unpriced = unpriced(budget, &workflow);
    if !unpriced.is_empty() {
        return refuse(&unpriced, common);
    }
    let events = match places::events(session) {
        Ok(events) => events,
        Err(fault) => return refuse(&[*fault], common),
    };
    let (id, folder) = session::new_folder(project)?;
    let lock = session::lock(&folder)?;
    let mut journal = session::journal(project)?;
    let mut header = Header::new(bundle.as_ref(), &workflow, inputs, budget)?;
    header.replay = replayed;
    let cursor = journal.begin(&NewRun {
        id: &id,
        workflow: &name,
        started_at_ms: now_ms(),
        header: &serde_json::to_string(&header)?,
    })?;
    let ready = Ready {
        id,
        name,
        folder,
        workflow,
        agents,
        terminal,
        context,
        plan,
        budget,
        log: Log::new(journal, cursor, Default::default()),
        tape,
        events,
        lock,
    };
    session::perform(ready, session, common)
}
