//! Events become lines for people and data for programs.
//!
//! **Invariant:** reporting cannot change a run: it hears `&RunEvent` and answers nothing.

pub mod json;
pub mod lines;
pub mod plan;

/// A text of somebody else's, for a terminal: one line, no control characters, not too long.
pub fn inert(text: &str) -> String {
    const SHOWN: usize = 300;
    let line: String = text
        .chars()
        .take(SHOWN)
        .map(|it| if it.is_control() { ' ' } else { it })
        .collect();
    match text.chars().nth(SHOWN) {
        Some(_) => format!("{line}…"),
        None => line,
    }
}
