//! Attempts that panic.

use std::future::ready;

use super::*;

/// Each of three tasks panics at once with another kind of payload.
struct Panics(Vec<String>);

impl Work for Panics {
    type Answer = ();

    fn attempt(&mut self, task: TaskIx, _: u32) -> impl Future<Output = ()> + Send + 'static {
        let payloads: [fn() -> Box<dyn Any + Send>; 3] = [
            || Box::new("a literal"),
            || Box::new("a message".to_owned()),
            || Box::new(7),
        ];
        async move { resume_unwind(payloads[task.at()]()) }
    }

    fn ahead(&mut self, _: TaskIx) -> impl Future<Output = ()> + Send + 'static {
        ready(())
    }

    fn recall(&mut self) -> Result<Option<Recalled>, Broken> {
        Ok(None)
    }

    fn commit(&mut self) -> Result<(), Broken> {
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Broken> {
        Ok(())
    }

    fn judge(&mut self, task: TaskIx, attempt: u32, answer: Ended<()>) -> Verdict {
        self.0.push(format!("{} {attempt} {answer:?}", task.at()));
        Verdict::Rejected(Retry::Never)
    }

    fn observe(&mut self, _: &Command, _: Option<Duration>) {}
}

#[test]
fn a_panic_is_judged_with_its_message_and_what_is_dropped_is_not_judged() {
    let check = |text, expect: Expect| {
        let World { graph, policy, .. } = &World::parse(text);
        let limits = Limits {
            deadline: None,
            grace: Duration::ZERO,
            seed: 0,
        };
        let mut work = Panics(Vec::new());
        paused().block_on(drive(
            Batch {
                graph,
                policy,
                limits,
            },
            &mut work,
            pending(),
        ));
        expect.assert_eq(&work.0.join("\n"));
    };
    check(
        "continue\na: 0\nb: 0\nc: 0",
        expect![[r#"
        0 1 Panicked("a literal")
        1 1 Panicked("a message")
        2 1 Panicked("a panic without a message")"#]],
    );
    // All have ended when the first is judged, which stops the batch.
    check(
        "stop\na: 0\nb: 0\nc: 0",
        expect![[r#"0 1 Panicked("a literal")"#]],
    );
}
