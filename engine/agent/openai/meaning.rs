//! What an error of an endpoint means: by the words of its body where they say so, else by its status.

use serde_json::Value;

use crate::accept::Failure;

/// What endpoints write as the `code`, `type` or `status` of an error.
const WORDS: &[(&str, Failure)] = &[
    ("insufficient_quota", Failure::Quota),
    ("billing_hard_limit_reached", Failure::Quota),
    ("billing_not_active", Failure::Quota),
    ("context_length_exceeded", Failure::ContextTooLong),
    ("exceed_context_size_error", Failure::ContextTooLong),
    ("content_filter", Failure::ContentFiltered),
    ("content_policy_violation", Failure::ContentFiltered),
    ("model_not_found", Failure::NotFound),
    ("invalid_api_key", Failure::Authentication),
    ("rate_limit_exceeded", Failure::RateLimited),
    ("rate_limit_error", Failure::RateLimited),
    ("overloaded_error", Failure::Overloaded),
];

/// vLLM has no word for it.
const TOO_LONG: &str = "maximum context length";

/// What an error means, of which `said` is the message.
pub(super) fn of(status: u16, body: &Value, said: &str) -> Failure {
    let places = [
        "/error/code",
        "/error/type",
        "/error/status",
        "/code",
        "/type",
    ];
    let mut words = places.iter().filter_map(|it| body.pointer(it)?.as_str());
    let known = |word: &str| WORDS.iter().find(|it| it.0 == word);
    if let Some((_, failure)) = words.find_map(known) {
        return *failure;
    }
    match status {
        400 if said.contains(TOO_LONG) => Failure::ContextTooLong,
        401 | 403 => Failure::Authentication,
        402 => Failure::Quota,
        404 | 410 => Failure::NotFound,
        408 => Failure::Timeout,
        // Somebody else is at it, or it is too early: both pass.
        409 | 425 => Failure::Overloaded,
        413 => Failure::ContextTooLong,
        429 => Failure::RateLimited,
        // What it cannot do, it will not learn.
        501 | 505 => Failure::BadRequest,
        500.. => Failure::Overloaded,
        _ => Failure::BadRequest,
    }
}
