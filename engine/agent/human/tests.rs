use std::sync::Mutex;

use expect_test::expect;
use serde_json::json;

use super::super::testing::{question, show, task};
use super::*;
use crate::{contract::structured_outputs::StructuredOutputs, shape};

/// Answers with what it was told to, and keeps what it was asked.
#[derive(Default)]
struct Person {
    typed: Option<&'static str>,
    is_late: bool,
    was_asked: Mutex<Vec<Question>>,
}

impl People for Person {
    fn ask(&self, question: Question) -> Asked {
        let (typed, is_late) = (self.typed, self.is_late);
        let heard = typed.map(|it| question.hear(it));
        self.was_asked.lock().unwrap().push(question);
        Box::pin(async move {
            match heard {
                Some(Heard::Answer(answer)) => Ok(answer),
                _ if is_late => Err(Absent::Late),
                _ => Err(Absent::Unreachable),
            }
        })
    }
}

fn choices(texts: &[&str]) -> Vec<Choice> {
    let texts = json!(texts);
    serde_json::from_value(texts).unwrap()
}

fn human(manner: &Manner<'_>, typed: Option<&'static str>) -> (Human, Arc<Person>) {
    let person = Arc::new(Person {
        typed,
        ..Person::default()
    });
    let human = Human::new(manner, person.clone());
    (human.expect("its question compiles"), person)
}

const PLAIN: Manner<'static> = Manner {
    question: None,
    choices: &[],
    default: None,
    timeout: None,
};

fn review() -> Arc<Shape> {
    let text = json!({
        "models": {"Review": {"type": "model", "fields": {"ok": {"type": "bool"}}}},
        "registry": {"Worker": "Review"},
    });
    let outputs: StructuredOutputs = serde_json::from_value(text).unwrap();
    let (shapes, faults) = shape::compile(&outputs);
    assert!(faults.is_empty());
    Arc::new(shapes.of_agent("Worker").unwrap().clone())
}

/// What comes of each text that is typed.
fn heard(manner: &Manner<'_>, shape: Option<Arc<Shape>>, typed: &[&str]) -> String {
    let mut request = question();
    request.shape = shape;
    let question = human(manner, None).0.question(&request).unwrap();
    let lines = typed
        .iter()
        .map(|it| format!("{it:?} -> {:?}\n", question.hear(it)));
    lines.collect()
}

#[test]
fn a_choice_is_made_by_text_or_number() {
    let choices = choices(&["Yes", "no", "3", "later"]);
    let manner = Manner {
        choices: &choices,
        ..PLAIN
    };
    let typed = [
        "Yes", " yes\n", "1", "2.", "3", "4)", "5", "0", "-1", "", "ye",
    ];
    expect![[r#"
        "Yes" -> Answer("Yes")
        " yes\n" -> Answer("Yes")
        "1" -> Answer("Yes")
        "2." -> Answer("no")
        "3" -> Answer("3")
        "4)" -> Answer("later")
        "5" -> Refused("choose by a number from 1 to 4, or by the text beside it")
        "0" -> Refused("choose by a number from 1 to 4, or by the text beside it")
        "-1" -> Refused("choose by a number from 1 to 4, or by the text beside it")
        "" -> Refused("there is no answer without a text")
        "ye" -> Refused("choose by a number from 1 to 4, or by the text beside it")
    "#]]
    .assert_eq(&heard(&manner, None, &typed));
}

#[test]
fn an_answer_has_to_fit_its_model() {
    let typed = [
        "yes",
        "{\"ok\": 1}",
        "{\"ok\":",
        "{\"ok\":\n true}",
        "```json\n{\"ok\": true}\n```",
    ];
    expect![[r#"
        "yes" -> Refused("not JSON: expected value at line 1 column 1, near `yes`")
        "{\"ok\": 1}" -> Refused("`/ok`: expected `true` or `false`, found the number `1`")
        "{\"ok\":" -> Unfinished
        "{\"ok\":\n true}" -> Answer("{\"ok\":\n true}")
        "```json\n{\"ok\": true}\n```" -> Answer("```json\n{\"ok\": true}\n```")
    "#]]
    .assert_eq(&heard(&PLAIN, Some(review()), &typed));

    let choices = json!([{"text": "fine", "json": {"ok": true}}, {"text": "odd", "json": {}}]);
    let choices: Vec<Choice> = serde_json::from_value(choices).unwrap();
    let manner = Manner {
        choices: &choices,
        default: Some("fine"),
        ..PLAIN
    };
    expect![[r#"
        "" -> Answer("{\"ok\":true}")
        "1" -> Answer("{\"ok\":true}")
        "odd" -> Refused("`/ok`: missing, expected `true` or `false`")
        "x" -> Refused("choose by a number from 1 to 2, or by the text beside it")
    "#]]
    .assert_eq(&heard(&manner, Some(review()), &["", "1", "odd", "x"]));
}

#[tokio::test]
async fn the_question_is_the_authors_or_the_prompt() {
    let asked = async |manner: &Manner<'_>, request: Request| {
        let (human, person) = human(manner, Some("fine"));
        let answer = show(&human.ask(request).await);
        let asked = person.was_asked.lock().unwrap().pop();
        format!("{:?} -> {answer}", asked.map(|it| it.text))
    };
    let own = Manner {
        question: Some("{{ input }}, {{ names[1] }}?"),
        ..PLAIN
    };
    assert_eq!(
        asked(&own, question()).await,
        "Some(\"hello, Ben?\") -> fine"
    );
    assert_eq!(
        asked(&PLAIN, task()).await,
        "Some(\"be brief\\n\\nhello\") -> fine"
    );
    let unknown = Manner {
        question: Some("{{ nobody }}"),
        ..PLAIN
    };
    let failed = asked(&unknown, question()).await;
    assert!(failed.starts_with("None -> template_failed: "), "{failed}");
}

#[tokio::test]
async fn where_nobody_can_be_asked_there_is_the_default_or_no_answer_yet() {
    let absent = async |default, request| {
        let manner = Manner { default, ..PLAIN };
        show(&human(&manner, None).0.ask(request).await)
    };
    assert_eq!(absent(Some("so be it"), question()).await, "so be it");
    assert_eq!(
        absent(None, question()).await,
        "unattended: `Worker` has to answer, and nobody can be asked here"
    );
    assert_eq!(
        absent(None, task()).await,
        "unattended: `Worker` has to answer for task `b`, and nobody can be asked here"
    );
}

#[tokio::test]
async fn whoever_is_late_is_taken_to_say_the_default() {
    let late = async |default| {
        let person = Arc::new(Person {
            is_late: true,
            ..Person::default()
        });
        let human = Human::new(&Manner { default, ..PLAIN }, person).unwrap();
        show(&human.ask(question()).await)
    };
    assert_eq!(late(Some("so be it")).await, "so be it");
    assert_eq!(
        late(None).await,
        "timeout: `Worker` has to answer, and has not in time"
    );
}
