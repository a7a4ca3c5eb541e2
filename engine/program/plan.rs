//! `mozaiks-run plan`: asks the planner, shows what it made, and runs nothing.

use std::{
    io::{self, Write},
    sync::Arc,
};

use tokio_util::sync::CancellationToken;

use super::{
    INVALID, args,
    inputs::Inputs,
    out, project, refuse, show,
    stop::on_runtime,
    terminal::{From, Terminal},
    workflow,
};
use crate::{
    agent::{build, human::People},
    compile::{Batch, Workflow},
    diagnostic::{self, Code, Diagnostic},
    plan::{self, Origin, Plan},
    report::{self, plan::Format},
    run::{self, Bound, Planned},
    source::Source,
};

pub(super) fn plan(args: &args::Plan) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let (_, workflow, _) = match workflow(&project, &args.workflow) {
        Ok(found) => found,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let batch = match chosen(&workflow, args.batch.as_deref()) {
        Ok(batch) => batch,
        Err(fault) => return refuse(&[*fault], &args.common),
    };
    let (context, given) = match Inputs::read(&args.given, args.plan.as_deref())
        .and_then(|it| it.prepare(&workflow))
    {
        Ok(prepared) => prepared,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let begun = context.clone();
    let planned = match &given {
        Some(source) => from_file(batch, source, &workflow),
        None => {
            let from = From::with(args.given.input.as_deref());
            let people: Arc<dyn People> = Arc::new(Terminal::new(from));
            let agents = match build::all(&workflow, &people, None) {
                Ok(agents) => agents,
                Err(faults) => return refuse(&faults, &args.common),
            };
            let ask = |cancel: CancellationToken| {
                let (workflow, agents) = (&workflow, &agents);
                let tools = super::tools(workflow);
                async move {
                    let asking = run::ask_planner(workflow, agents, batch, context, tools, &cancel);
                    let planned = asking.await;
                    for agent in agents.values() {
                        agent.close().await;
                    }
                    planned
                }
            };
            match on_runtime(ask)?.0 {
                Planned::Accepted(plan) => Ok(*plan),
                Planned::Refused(faults) => Err(faults),
                Planned::Stopped(reason) => anyhow::bail!("{reason}"),
            }
        }
    };
    match planned {
        Ok(plan) => {
            let bound = run::bound(&workflow, batch, &plan, &begun);
            draw(args, &plan, batch, &bound)
        }
        Err(faults) => {
            show(&faults, &args.common)?;
            if !args.common.json {
                writeln!(
                    io::stderr(),
                    "{}; the plan is refused as a whole, and no worker was asked",
                    diagnostic::summary(&faults)
                )?;
            }
            Ok(INVALID)
        }
    }
}

fn chosen<'a>(workflow: &'a Workflow, id: Option<&str>) -> Result<&'a Batch, Box<Diagnostic>> {
    let found = match id {
        None => workflow.batches.first(),
        Some(id) => workflow.batches.iter().find(|it| &*it.id == id),
    };
    found.ok_or_else(|| {
        let message = match id {
            None => format!("`{}` has no batch to plan", workflow.name),
            Some(id) => format!("`{}` has no batch `{id}`", workflow.name),
        };
        let ids = workflow.batches.iter().map(|it| it.id.to_string());
        let diagnostic = Diagnostic::error(Code::BadInput, message);
        Box::new(diagnostic.found(id.unwrap_or_default()).allowed(ids))
    })
}

fn from_file(batch: &Batch, source: &Source, workflow: &Workflow) -> Result<Plan, Vec<Diagnostic>> {
    let (tasks, at) = plan::given(batch, source).map_err(|it| vec![*it])?;
    run::accepted(workflow, batch, &tasks, &Origin::File(source, at))
}

fn draw(args: &args::Plan, plan: &Plan, batch: &Batch, bound: &Bound) -> anyhow::Result<u8> {
    let format = if args.common.json {
        Format::Json
    } else {
        args.format
    };
    let text = report::plan::draw(plan, batch, bound, format);
    write!(out::stdout(), "{text}")?;
    Ok(0)
}
