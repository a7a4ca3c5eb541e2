//! `mozaiks-run dag`: carries out a DAG that somebody wrote.

use std::{io::Write, iter};

use super::{
    Faults, Found, args,
    inputs::{DagInputs, Inputs, PlanFile},
    keys, out,
    performance::{self, Tapes},
    project, refuse, show,
    terminal::From,
    workflow,
};
use crate::{
    agent::{build, env::Env},
    compile::{First, FixedDag, Workflow},
    context::Context,
    contract::acmp::{Acmp, FailurePolicy},
    diagnostic::Diagnostic,
    load::Project,
    plan,
    report::{self, plan::Format},
    run,
    schema::FileKind,
};

pub(super) fn dag(args: &args::Dag) -> anyhow::Result<u8> {
    let project = match project(&args.common) {
        Ok(project) => project,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let given = match given(args) {
        Ok(given) => given,
        Err(faults) => return refuse(&faults, &args.common),
    };
    let found = match prepare(&project, &given) {
        Ok(found) => found,
        Err(faults) => return refuse(&faults, &args.common),
    };
    if args.check {
        if !args.common.json {
            show(&found.2, &args.common)?;
        }
        return draw(&found.1, args);
    }
    let inputs = Inputs {
        dag: Some(given),
        ..Inputs::default()
    };
    performance::begin(
        &project,
        found,
        inputs,
        (Tapes::default(), From::of(&args.session, None)),
        (&args.session, &args.common),
    )
}

fn given(args: &args::Dag) -> Result<DagInputs, Faults> {
    let file = PlanFile::read(&args.file, "DAG");
    let acmp = args.acmp.as_deref();
    let acmp = acmp
        .map(|it| PlanFile::read(it, "file of `--acmp`"))
        .transpose();
    match (file, acmp) {
        (Ok(file), Ok(acmp)) => Ok(DagInputs {
            file,
            workflow: args.workflow.clone(),
            acmp,
            how: args.how.clone(),
        }),
        (file, acmp) => Err(file.err().into_iter().chain(acmp.err()).collect()),
    }
}

/// The workflow that carries out a DAG, and whose files it is of. Gives the warnings.
pub(super) fn prepare(project: &Project, given: &DagInputs) -> Result<Found, Faults> {
    let source = given.file.parse().map_err(|it| vec![it])?;
    let (bundle, mut workflow, mut warnings) = match &given.workflow {
        Some(name) => {
            let (bundle, workflow, warnings) = workflow(project, name)?;
            (Some(bundle), workflow, warnings)
        }
        None => {
            let name = source.value()["dag_id"]
                .as_str()
                .unwrap_or("dag")
                .to_owned();
            (None, Workflow::bare(&name, project.clone()), Vec::new())
        }
    };
    if let Some(file) = &given.acmp {
        let source = file.parse().map_err(|it| vec![it])?;
        let (acmp, mut found) = FileKind::Acmp.schema().read::<Acmp>(&source);
        let Some(acmp) = acmp else {
            return Err(found);
        };
        workflow.acmp = acmp;
        let at = |ix: usize| Some(source.place(&format!("/providers/{ix}")));
        found.extend(build::check_providers(&workflow, at));
        found.extend(keys::short(
            &workflow,
            || iter::once(&source.file),
            &Env::Process,
        ));
        if found.iter().any(Diagnostic::is_error) {
            return Err(found);
        }
        warnings.extend(found);
    }
    let acmp = &mut workflow.acmp;
    let how = &given.how;
    acmp.concurrency = how.concurrency.unwrap_or(acmp.concurrency);
    acmp.retry_limit = how.retry_limit.unwrap_or(acmp.retry_limit);
    acmp.max_price_cu = how.max_price_cu.or(acmp.max_price_cu);
    if how.best_effort {
        acmp.failure_policy = FailurePolicy::BestEffort;
    }
    warnings.extend(workflow.carry_out(&source)?);
    Ok((bundle, workflow, warnings))
}

fn draw(workflow: &Workflow, args: &args::Dag) -> anyhow::Result<u8> {
    let First::Dag(fixed) = &workflow.first else {
        return Ok(0);
    };
    let FixedDag { dag, batch } = &**fixed;
    let plan = plan::of_dag(batch, dag, &workflow.capabilities);
    let format = match args.common.json {
        true => Format::Json,
        false => args.format,
    };
    let bound = run::bound(workflow, batch, &plan, &Context::default());
    let drawn = report::plan::draw(&plan, batch, &bound, format);
    write!(out::stdout(), "{drawn}")?;
    Ok(0)
}
