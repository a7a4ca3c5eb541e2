use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

/// L3-03: the canonical form of RFC 8785, whatever the order, the spelling and the numbers of the output.
#[test]
fn l3_03_an_output_is_hashed_in_its_canonical_form() {
    let check = |output: &str, canonical: &str| {
        let output: Value = serde_json::from_str(output).expect("it is JSON");
        let made = serde_json_canonicalizer::to_string(&output).expect("it has a canonical form");
        assert_eq!(made, canonical);
        let digest = Sha256::digest(canonical);
        let hex: String = digest.iter().map(|it| format!("{it:02x}")).collect();
        assert_eq!(result_hash(&output), Some(format!("sha256:{hex}")));
    };
    check(
        r#"{"type": "json", "data": {"b": 1.0, "a": 1e21}}"#,
        r#"{"data":{"a":1e+21,"b":1},"type":"json"}"#,
    );
    check(
        r#"{"data": [1e16, 1e-7, 0.1, -0.0, 1E+2], "type": "json"}"#,
        r#"{"data":[10000000000000000,1e-7,0.1,0,100],"type":"json"}"#,
    );
    // Keys are ordered by UTF-16 code units: a surrogate comes before the last of the plane below it.
    check(
        r#"{"data": {"\ufb33": 1, "\ud83d\ude00": 2, "\u00f6": 3}, "type": "json"}"#,
        "{\"data\":{\"ö\":3,\"😀\":2,\"\u{fb33}\":1},\"type\":\"json\"}",
    );
    check(
        r#"{"data": "\u20ac\u000f\u000aA\u0022\\/", "type": "text"}"#,
        "{\"data\":\"€\\u000f\\nA\\\"\\\\/\",\"type\":\"text\"}",
    );
}

#[test]
fn l3_01_and_02_a_proof_counts_where_it_was_asked_for() {
    let output = json!({ "type": "text", "data": "x" });
    let hash = result_hash(&output);
    let check = |wanted, proof: Value, expect: Expect| {
        let result = json!({ "output": output, "proof": proof });
        expect.assert_eq(&verify(wanted, &result).err().unwrap_or_default());
    };
    let good = json!({ "method": "result-hash", "hash": hash });
    check(Some("result-hash"), good.clone(), expect![""]);
    check(
        Some("result-hash"),
        json!({ "method": "result-hash", "hash": "sha256:00" }),
        expect![
            "the output does not have the hash that its proof says: sha256:8740de72a80704cf735c608f666eb863f6568917692920af70e16ac8b8e1b964 instead of sha256:00"
        ],
    );
    check(
        Some("result-hash"),
        json!({ "method": "result-hash" }),
        expect![
            "the output does not have the hash that its proof says: sha256:8740de72a80704cf735c608f666eb863f6568917692920af70e16ac8b8e1b964 instead of none"
        ],
    );
    check(
        Some("result-hash"),
        json!({ "method": "tee" }),
        expect!["the proof is by `tee`, not by `result-hash`"],
    );
    check(
        Some("result-hash"),
        Value::Null,
        expect!["the proof by `result-hash` that was asked for is missing"],
    );
    check(
        Some("tee"),
        good,
        expect!["the proof is by `result-hash`, not by `tee`"],
    );
    check(None, json!({ "method": "unheard-of" }), expect![[""]]);
}
