//! Chunks that are as they should be, and those that are not.

use expect_test::{Expect, expect};

use super::*;

fn said(seq: u64, data: &Value, is_last: bool) -> Value {
    json!({ "task_id": "t", "seq": seq, "chunk": { "type": "text", "data": data }, "final": is_last })
}

/// What comes of it when these are put in one after the other.
fn put(all: &[Value]) -> String {
    let chunks = Chunks::new(100);
    let failed = all.iter().find_map(|it| chunks.put(it).err());
    match (failed, chunks.whole()) {
        (Some(failed), _) => format!("{failed:?}"),
        (None, Some(whole)) => whole.to_string(),
        (None, None) => "not whole".to_owned(),
    }
}

#[test]
fn l2_31_chunks_make_up_a_whole() {
    let check = |all: &[Value], expect: Expect| expect.assert_eq(&put(all));
    check(&[], expect!["not whole"]);
    let one = said(0, &json!("one"), true);
    check(&[one], expect![[r#"{"type":"text","data":"one"}"#]]);
    let texts = ["a", "", "ß\n"].map(Value::from);
    let texts = [0, 1, 2].map(|it| said(it, &texts[it as usize], it == 2));
    check(&texts, expect![[r#"{"type":"text","data":"aß\n"}"#]]);
    check(&texts[..2], expect!["not whole"]);
    // What is no text is put into a list.
    let mixed = [
        said(0, &json!("a"), false),
        said(1, &json!({"b": [1]}), true),
    ];
    check(
        &mixed,
        expect![[r#"{"type":"json","data":["a",{"b":[1]}]}"#]],
    );
    let mut kinds = [said(0, &json!("a"), false), said(1, &json!("b"), true)];
    kinds[1]["chunk"]["type"] = json!("image/png");
    check(&kinds, expect![[r#"{"type":"json","data":["a","b"]}"#]]);
}

#[test]
fn l1_06_chunks_come_in_order_each_once_and_none_after_the_last() {
    let check = |all: &[Value], expect: Expect| expect.assert_eq(&put(all));
    let chunk = |seq, is_last| said(seq, &json!("x"), is_last);
    check(
        &[chunk(1, false)],
        expect![[r#"OutOfOrder("chunk 1 came in place of chunk 0")"#]],
    );
    check(
        &[chunk(0, false), chunk(2, true)],
        expect![[r#"OutOfOrder("chunk 2 came in place of chunk 1")"#]],
    );
    check(
        &[chunk(0, false), chunk(0, false)],
        expect![[r#"OutOfOrder("chunk 0 came in place of chunk 1")"#]],
    );
    check(
        &[chunk(0, true), chunk(1, true)],
        expect![[r#"OutOfOrder("a chunk came after the last")"#]],
    );
    let mut odd = [
        chunk(0, true),
        chunk(0, true),
        chunk(0, true),
        chunk(0, true),
    ];
    odd[0]["seq"] = json!(-1);
    odd[1]["final"] = json!("yes");
    odd[2]["chunk"]["type"] = json!(1);
    odd[3]["chunk"] = json!({ "type": "text" });
    let said = odd.map(|it| put(&[it])).join("\n");
    expect![[r#"
        OutOfOrder("a chunk has no `seq`")
        OutOfOrder("`final` of a chunk is not true or false")
        OutOfOrder("a chunk has no `type` and `data`")
        OutOfOrder("a chunk has no `type` and `data`")"#]]
    .assert_eq(&said);
}

#[test]
fn they_are_bounded() {
    let check = |all: &[Value], expect: Expect| expect.assert_eq(&put(all));
    let half = json!("x".repeat(48));
    let all = [0, 1].map(|it| said(it, &half, it == 1));
    assert!(put(&all).contains("text"));
    let more = [
        said(0, &half, false),
        said(1, &half, false),
        said(2, &json!("x"), true),
    ];
    check(
        &more,
        expect![[r#"TooMuch("it comes in more than 100000 chunks, or more than 100 bytes")"#]],
    );
    let chunks = Chunks::new(usize::MAX);
    let small = |seq| said(seq, &json!(""), false);
    assert!((0..MOST as u64).all(|it| chunks.put(&small(it)).is_ok()));
    let one_more = chunks.put(&small(MOST as u64));
    assert!(matches!(one_more, Err(Wrong::TooMuch(_))), "{one_more:?}");
}

#[test]
fn what_comes_again_is_not_there_twice_and_has_to_be_the_same() {
    let chunks = Chunks::new(100);
    let [a, b, c] = ["a", "b", "c"].map(Value::from);
    assert_eq!(chunks.put(&said(0, &a, false)), Ok(()));
    assert_eq!(chunks.put(&said(1, &b, false)), Ok(()));
    chunks.rewind();
    assert_eq!(chunks.put(&said(0, &a, false)), Ok(()));
    assert_eq!(chunks.put(&said(1, &b, false)), Ok(()));
    assert_eq!(chunks.put(&said(2, &c, true)), Ok(()));
    assert_eq!(
        chunks.whole(),
        Some(json!({ "type": "text", "data": "abc" }))
    );
    chunks.rewind();
    let other = chunks.put(&said(0, &c, false));
    assert!(matches!(other, Err(Wrong::OutOfOrder(_))), "{other:?}");
}

#[tokio::test]
async fn they_hold_where_they_make_up_what_came_of_the_whole() {
    let abc = json!({ "type": "text", "data": "ab" });
    let other = json!({ "type": "text", "data": "ac" });
    for (output, holds) in [(Some(&abc), true), (Some(&other), false), (None, false)] {
        let chunks = Chunks::new(100);
        chunks.put(&said(0, &json!("a"), false)).unwrap();
        assert_eq!(chunks.get(0).await.map(|it| it.is_last), Some(false));
        chunks.put(&said(1, &json!("b"), true)).unwrap();
        chunks.settle(output);
        chunks.settle(Some(&abc));
        assert_eq!(chunks.hold().await, holds);
        assert_eq!(chunks.get(1).await.is_some(), holds);
    }
    // One that is not there, and never will be.
    let chunks = Chunks::new(100);
    chunks.put(&said(0, &json!("a"), false)).unwrap();
    chunks.settle(Some(&abc));
    assert!(!chunks.hold().await);
    assert_eq!(chunks.get(1).await, None);
}
