//! Events become lines for people and data for programs.
//!
//! **Invariant:** reporting cannot change a run: it hears `&RunEvent` and answers nothing.
//! **Invariant:** what a planner or a worker wrote reaches a terminal only through [`inert`], or, where it is what somebody wants to read, through [`still`].

use std::{sync::Arc, time::Duration};

use crate::event::RunEvent;

pub mod history;
pub mod json;
pub mod lines;
pub mod plan;
pub mod progress;

/// How many characters of a name are shown in a table.
const NAME: usize = 40;

/// Whoever is told what happens in a run.
pub trait Listener {
    fn hear(&mut self, event: &RunEvent);
}

/// Says how long ago the run began.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A text of somebody else's, for a terminal: one line of at most 300 characters, none of which moves the cursor or turns the line around.
pub fn inert(text: &str) -> String {
    let length = text.chars().count();
    if length <= 300 {
        return clip(text, 300);
    }
    // What a program said last is as a rule why it failed.
    let tail: String = text.chars().skip(length - 180).collect();
    format!("{}{}", clip(text, 120), clip(&tail, 180))
}

/// As [`inert`], with at most `room` characters.
fn clip(text: &str, room: usize) -> String {
    let is_cut = text.chars().nth(room).is_some();
    let shown = text.chars().take(room - usize::from(is_cut));
    shown.map(harmless).chain(is_cut.then_some('…')).collect()
}

/// As [`inert`], with all its lines, however long.
pub fn inert_lines(text: &str) -> String {
    let lines = text.lines().map(|it| it.chars().map(harmless).collect());
    lines.collect::<Vec<String>>().join("\n")
}

/// A text of somebody else's that is to be read as it is: nothing in it acts on a terminal.
pub fn still(text: &str) -> String {
    let shown = |it| match it {
        '\n' | '\t' => it,
        it if it.is_control() => ' ',
        it => it,
    };
    text.chars().map(shown).collect()
}

/// What moves no cursor and turns no line around, or else a space.
fn harmless(it: char) -> char {
    match it {
        it if it.is_control() => ' ',
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' => ' ',
        it => it,
    }
}

/// `1 task`, `2 tasks`.
fn count(n: usize, one: &str) -> String {
    match n {
        1 => format!("1 {one}"),
        n => format!("{n} {one}s"),
    }
}

/// Rows with their columns aligned.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths);
        let cells = cells.map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// As many names as there is room for, then how many more there are.
fn join<S: AsRef<str>>(names: &[S], separator: &str, room: usize) -> String {
    let mut text = String::new();
    for (shown, name) in names.iter().enumerate() {
        let name = clip(name.as_ref(), NAME);
        if shown == 0 {
            text = name;
        } else if text.chars().count() + name.chars().count() < room {
            text = text + separator + &name;
        } else {
            return format!("{text}{separator}{} more", names.len() - shown);
        }
    }
    match names {
        [] => "-".to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests;
