//! Files of providers: what can be known to be wrong before anybody is asked.

use std::fs;

use expect_test::expect;
use serde_json::json;

use super::{Carrier::Stdio, Peer, one, read};
use crate::harness::Project;

#[test]
fn what_is_wrong_with_providers_is_known_before_they_are_asked() {
    let project = Project::new();
    project.write("dag.json", one(&json!({})));
    let check = |providers: &str| {
        project.write("acmp.yaml", format!("providers:\n{providers}"));
        let arguments = ["dag", "dag.json", "--acmp", "acmp.yaml", "--check"];
        let ran = project.run_with(&[("SHORT", "short12")], &arguments);
        format!("{}exit {}\n", ran.stderr, ran.code)
    };
    let endpoint = "  - {name: p, capabilities: [echo], endpoint: ";
    let told = [
        check(&format!("{endpoint}{{kind: http, url: \"ftp://x\"}}}}\n")),
        check(&format!(
            "{endpoint}{{kind: http, url: \"http://127.0.0.1:1/\"}}, token_env: SHORT}}\n{endpoint}{{kind: stdio, argv: [cat]}}}}\n"
        )),
        check(&format!(
            "{endpoint}{{kind: stdio, argv: [no-such-program]}}}}\n"
        )),
        check(&format!(
            "{endpoint}{{kind: http, url: \"http://127.0.0.1:1/\"}}, token_env: SHORT}}\n"
        )),
    ];
    expect![[r#"
        error[MZ501]: the provider `p` cannot be asked: `ftp://x/`: `ftp` is neither `https` nor `http`
         --> acmp.yaml:2:5
          |
        2 |   - {name: p, capabilities: [echo], endpoint: {kind: http, url: "ftp://x"}}
          |     ^

        1 error; nothing was started
        for more about one of them: mozaiks-run explain MZ501
        exit 2
        error[MZ303]: two providers are called `p`
         --> acmp.yaml:3:5
          |
        3 |   - {name: p, capabilities: [echo], endpoint: {kind: stdio, argv: [cat]}}
          |     ^

        warning[MZ322]: the key in `SHORT` is shorter than 12 characters: where somebody quotes it, it is not hidden
         --> acmp.yaml:2:100
          |
        2 |   - {name: p, capabilities: [echo], endpoint: {kind: http, url: "http://127.0.0.1:1/"}, token_env: SHORT}
          |                                                                                                    ^^^^^

        1 error, 1 warning; nothing was started
        for more about one of them: mozaiks-run explain MZ303
        exit 2
        warning[MZ316]: the program `no-such-program` of the provider `p` cannot be started here: no folder of `PATH` has it
         --> acmp.yaml:2:5
          |
        2 |   - {name: p, capabilities: [echo], endpoint: {kind: stdio, argv: [no-such-program]}}
          |     ^

        exit 0
        warning[MZ322]: the key in `SHORT` is shorter than 12 characters: where somebody quotes it, it is not hidden
         --> acmp.yaml:2:100
          |
        2 |   - {name: p, capabilities: [echo], endpoint: {kind: http, url: "http://127.0.0.1:1/"}, token_env: SHORT}
          |                                                                                                    ^^^^^

        exit 0
    "#]].assert_eq(&told.concat());
}

#[test]
fn a_dag_may_be_carried_out_by_providers_alone_and_a_file_in_the_wrong_folder_is_told_of() {
    let project = Project::new();
    let endpoint = Peer::start(&project, "good", Stdio).endpoint.clone();
    let acmp = json!({ "providers": [{ "name": "good", "endpoint": endpoint, "capabilities": ["echo"] }] });
    project.write(
        "workflows/W/extended_orchestration/task_dag.yaml",
        one(&json!({})),
    );
    project.write(
        "workflows/W/extended_orchestration/acmp.yaml",
        acmp.to_string(),
    );
    let checked = project.run(&["check", "W"]);
    assert_eq!(checked.code, 2, "{}", checked.stderr);
    for wanted in [
        "warning[MZ208]: `workflows/W/extended_orchestration/acmp.yaml` is not read",
        "name it `acmp.yaml`, seen from the workflow's folder",
        "error[MZ416]: nobody who may be asked serves the capability `echo`",
    ] {
        assert!(
            checked.stderr.contains(wanted),
            "{wanted}: {}",
            checked.stderr
        );
    }
    fs::remove_file(project.path("workflows/W/extended_orchestration/acmp.yaml"))
        .expect("it is there");
    project.write("workflows/W/acmp.yaml", acmp.to_string());
    let ran = project.run(&["W", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(read(&ran.stdout)["answer"]["data"]["said"], "hello");
}
