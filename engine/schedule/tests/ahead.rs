//! Tasks that begin with what there is so far.

use expect_test::expect;

use super::check;

#[test]
fn l2_34_and_35_a_task_goes_ahead_with_its_stream_alone_and_nothing_changes_but_when() {
    // The stream flows half way through.
    check(
        "slots 4\na: 4\nb: 4 <- a~\nc: 1 <- a",
        expect![[r#"
        a |####  | completed
        b |  ~~~~| completed
        c |    # | completed
    "#]],
    );
    // It takes what slots are left, and what else it needs has to be there.
    check(
        "slots 2\na: 4\nb: 4 <- a~\nc: 3",
        expect![[r#"
        a |####   | completed
        b |   ~~~~| completed
        c |###    | completed
    "#]],
    );
    check(
        "slots 4\na: 4\nb: 4 <- a~ c\nc: 7",
        expect![[r#"
        a |####       | completed
        b |       ####| completed
        c |#######    | completed
    "#]],
    );
    // What fails ahead has made no attempt, and what went ahead with what came to nothing neither.
    check(
        "retries 1, continue\na: 8\nb: 1x 1 <- a~",
        expect![[r#"
        a |########   | completed
        b |    ~   #.#| completed
    "#]],
    );
    check(
        "retries 1, continue\na: 4x 4\nb: 4 <- a~\nc: 1 <- b~",
        expect![[r#"
            a |####.####    | completed
            b |  ~~     ####| completed
            c |           ~~| completed
        "#]],
    );
    check(
        "continue\na: 4!\nb: 4 <- a~\nc: 1 <- b~",
        expect![[r#"
        a |####| failed
        b |  ~~| needs a
        c |    | needs a
    "#]],
    );
    // A chain goes ahead as one.
    check(
        "slots 4\na: 8\nb: 2 <- a~\nc: 2 <- b~",
        expect![[r#"
        a |########| completed
        b |    ~~~~| completed
        c |     ~~~| completed
    "#]],
    );
}
