//! What can be the id of a task.

/// The longest one, in bytes.
const MAX_BYTES: usize = 200;

/// Whether it is one of the names that results keep for themselves.
pub fn is_reserved_id(id: &str) -> bool {
    matches!(id, "_meta" | "_failed")
}

/// Why a text cannot be an id, and what to do about it.
pub fn unusable_id(id: &str) -> Option<(String, &'static str)> {
    if id.trim().is_empty() {
        return Some(("is blank".to_owned(), "give it a short text"));
    }
    if id.len() > MAX_BYTES {
        let length = id.len();
        let why = format!("is {length} bytes long; {MAX_BYTES} are allowed");
        return Some((
            why,
            "give it a shorter one, and name it so wherever it is named",
        ));
    }
    if let Some(char) = id.chars().find(|it| it.is_control()) {
        let why = format!("has the control character `{}`", char.escape_debug());
        return Some((
            why,
            "ids stand on one line in reports: take the character out",
        ));
    }
    is_reserved_id(id).then(|| {
        let why = format!("is `{id}`, a name that the results use for something else");
        (why, "call it something else")
    })
}
