//! `result-hash`: a provider's commitment to its output.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The only method of proof that is known.
pub const RESULT_HASH: &str = "result-hash";

/// The hash of an output (`type` and `data`) in its canonical form (RFC 8785). None where a number has no such form.
pub fn result_hash(output: &Value) -> Option<String> {
    let text = serde_json_canonicalizer::to_vec(output).ok()?;
    let digest = Sha256::digest(text);
    let hex: String = digest.iter().map(|it| format!("{it:02x}")).collect();
    Some(format!("sha256:{hex}"))
}

/// Holds an output against its proof, if one was asked for.
///
/// # Errors
/// What is wrong with the proof.
pub fn verify(wanted: Option<&str>, result: &Value) -> Result<(), String> {
    let Some(wanted) = wanted else {
        // What nobody asked for proves nothing.
        return Ok(());
    };
    let proof = &result["proof"];
    match proof["method"].as_str() {
        None => {
            return Err(format!(
                "the proof by `{wanted}` that was asked for is missing"
            ));
        }
        Some(method) if method != wanted => {
            return Err(format!("the proof is by `{method}`, not by `{wanted}`"));
        }
        Some(_) => (),
    }
    if wanted != RESULT_HASH {
        return Ok(());
    }
    match (result_hash(&result["output"]), proof["hash"].as_str()) {
        (Some(hash), Some(said)) if hash == said => Ok(()),
        (hash, said) => Err(format!(
            "the output does not have the hash that its proof says: {} instead of {}",
            hash.unwrap_or_default(),
            said.unwrap_or("none")
        )),
    }
}

#[cfg(test)]
mod tests;
