//! `mozaiks-run WORKFLOW`: runs it.

use std::io::{self, Write};

use super::{
    args,
    inputs::Inputs,
    project, refuse,
    session::{self, Header, Ready, unpriced},
    show,
    tape::{self, Tape},
    workflow,
};
use crate::{
    journal::NewRun,
    recording::Recorder,
    run::{Log, now_ms},
};

pub(super) fn run(args: &args::Run) -> anyhow::Result<u8> {
    let name = args.workflow.as_deref().unwrap_or_default();
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let (bundle, mut workflow, warnings) = match workflow(&project, name) {
        Ok(found) => found,
        Err(faults) => return refuse(&faults, &args.common),
    };
    if args.session.verbose && !args.common.json {
        show(&warnings, &args.common)?;
    } else if !warnings.is_empty() && !args.session.quiet && !args.common.json {
        writeln!(
            io::stderr(),
            "{} (mozaiks-run check {name} shows them)",
            crate::diagnostic::summary(&warnings)
        )?;
    }
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
    let (context, plan) = match inputs.prepare(&workflow) {
        Ok(prepared) => prepared,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let tape = match (replay, &args.record) {
        (Some(replay), _) => Tape::Replay(replay),
        (None, None) => Tape::None,
        (None, Some(path)) => {
            let run = (name, serde_json::to_value(&inputs)?);
            Tape::Record(Recorder::create(path, tape::secrets(&workflow), run)?)
        }
    };
    let agents = match tape.agents(&mut workflow) {
        Ok(agents) => agents,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let budget = args.session.budget();
    let unpriced = unpriced(budget, &workflow);
    if !unpriced.is_empty() {
        return refuse(&unpriced, &args.common);
    }
    if let Some(fault) = session::out_is_taken(&args.session) {
        return refuse(&[fault], &args.common);
    }
    let (id, folder) = session::new_folder(&project)?;
    let lock = session::lock(&folder)?;
    let mut journal = session::journal(&project)?;
    let mut header = Header::new(&bundle, &workflow, inputs, budget)?;
    header.replay = args
        .replay
        .as_deref()
        .map(std::path::absolute)
        .transpose()?;
    let cursor = journal.begin(&NewRun {
        id: &id,
        workflow: name,
        started_at_ms: now_ms(),
        header: &serde_json::to_string(&header)?,
    })?;
    let ready = Ready {
        id,
        name: name.to_owned(),
        folder,
        workflow,
        agents,
        context,
        plan,
        budget,
        log: Log::new(journal, cursor, Default::default()),
        tape,
        lock,
    };
    session::perform(ready, &args.session, &args.common)
}
