//! Where environment variables are looked up.

use std::{collections::BTreeMap, ffi::OsString};

/// An environment: that of this process, or one that was written down.
#[derive(Debug, Clone)]
pub enum Env {
    Process,
    Fixed(BTreeMap<String, OsString>),
}

impl Env {
    /// An environment of these variables and no others.
    pub fn fixed<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Env {
        let variables = variables.into_iter();
        Env::Fixed(
            variables
                .map(|(name, value)| (name.to_owned(), value.into()))
                .collect(),
        )
    }

    pub fn get(&self, name: &str) -> Option<OsString> {
        match self {
            Env::Process => std::env::var_os(name),
            Env::Fixed(variables) => variables.get(name).cloned(),
        }
    }

    /// A variable as a text without the white space around it, if anything is left.
    pub fn text(&self, name: &str) -> Option<String> {
        let text = self.get(name)?.into_string().ok()?;
        Some(text.trim().to_owned()).filter(|it| !it.is_empty())
    }
}
