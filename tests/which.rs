//! Which run is meant.

use expect_test::expect;

use crate::{
    acmp::read,
    harness::Project,
    history::{FILES, check},
};

#[test]
fn a_project_without_runs_has_none() {
    let project = Project::of(FILES);
    let commands = ["runs", "runs --json", "show x", "prune --older-than 0s"];
    check(
        &project,
        "none",
        &commands,
        expect![[r#"
        $ runs
        there are no such runs
        => 0
        $ runs --json
        []
        => 0
        $ show x
        error[MZ601]: there is no run `x`

        1 error; nothing was started
        for more about one of them: mozaiks-run explain MZ601
        => 2
        $ prune --older-than 0s
        there is nothing to remove
        => 0
    "#]],
    );
    for arguments in ["show x --events", "logs x", "cancel x", "rm x"] {
        let ran = project.run(&arguments.split(' ').collect::<Vec<_>>());
        let fault = ran.stderr.lines().next();
        let wanted = Some("error[MZ601]: there is no run `x`");
        assert_eq!((ran.code, fault), (2, wanted), "{arguments}");
    }
    let ran = project.run(&["show"]);
    assert!(ran.code == 2 && ran.stderr.contains("there is no run yet"));
    assert!(!project.path(".mozaiks").exists(), "looking writes nothing");
}

#[test]
fn without_an_id_the_last_run_is_meant() {
    let project = Project::of(FILES);
    let ids = [(), ()].map(|()| read(&project.run(&["W", "--json"]).stdout)["run"].clone());
    assert_ne!(ids[0], ids[1]);
    let last = ids[1].as_str().expect("it has an id");
    for arguments in [&["show", "--json"][..], &["show"], &["logs"]] {
        let named = project.run(&[arguments, &[last]].concat());
        let ran = project.run(arguments);
        assert_eq!((ran.code, ran.stdout), (0, named.stdout), "{arguments:?}");
    }
    assert_eq!(
        read(&project.run(&["show", "--json"]).stdout)["run"],
        ids[1]
    );
}
