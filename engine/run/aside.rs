//! Where long outputs lie once no task needs them: so many of them need no memory.

use std::{
    fs::File,
    io::{Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use crate::context::{Elsewhere, Json};

/// A shorter text stays in memory, in bytes.
const SHORT: usize = 1024;

/// A file without a name, so that nothing is left of it however the process ends. There is none before there is
/// something to put there.
#[derive(Debug)]
pub(super) struct Aside {
    folder: PathBuf,
    file: Option<Arc<Mutex<File>>>,
    end: u64,
}

/// A part of the file.
struct Part {
    file: Arc<Mutex<File>>,
    at: u64,
    length: usize,
}

impl Aside {
    pub(super) fn new(folder: &Path) -> Aside {
        Aside {
            folder: folder.to_owned(),
            file: None,
            end: 0,
        }
    }

    /// The same value, with its text in the file if it is long. Where that cannot be, because the disk is full for
    /// instance, it stays where it is.
    pub(super) fn put(&mut self, value: Json) -> Json {
        if value.length() < SHORT || value.is_elsewhere() {
            return value;
        }
        self.write(&value).unwrap_or(value)
    }

    fn write(&mut self, value: &Json) -> Option<Json> {
        let file = match &self.file {
            Some(file) => file,
            None => {
                let file = tempfile::tempfile_in(&self.folder).ok()?;
                self.file.insert(Arc::new(Mutex::new(file)))
            }
        };
        let at = self.end;
        let text = value.text();
        let mut open = file.lock().unwrap_or_else(PoisonError::into_inner);
        open.seek(SeekFrom::Start(at)).ok()?;
        open.write_all(text.as_bytes()).ok()?;
        drop(open);
        self.end += text.len() as u64;
        Some(Json::elsewhere(Part {
            file: Arc::clone(file),
            at,
            length: text.len(),
        }))
    }
}

impl Elsewhere for Part {
    fn length(&self) -> usize {
        self.length
    }

    /// # Panics
    /// If the disk does not give back what was written to it, which ends the attempt or the command that needs it.
    fn read(&self, limit: usize) -> Vec<u8> {
        use std::io::Read as _;
        let mut bytes = vec![0; self.length.min(limit)];
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(self.at))
            .and_then(|_| file.read_exact(&mut bytes))
            .expect("what was put aside can be read back");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_put_aside_is_the_same_value() {
        let folder = tempfile::tempdir().expect("there is room");
        let mut aside = Aside::new(folder.path());
        let long = "é".repeat(SHORT);
        for value in [json!("short"), json!(long), json!({ "a": [long, 1.5e300] })] {
            let held = Json::written(&value);
            let put = aside.put(held.clone());
            assert_eq!(put.text(), held.text());
            assert_eq!(put.length(), held.length());
            assert_eq!(*put.value(), value);
            assert_eq!(put.to_value(), value);
            assert_eq!(put.to_string(), held.to_string());
            for limit in [0, 1, 2, 3, 100, 101, SHORT * 8] {
                assert_eq!(put.beginning(limit), held.beginning(limit), "{limit}");
            }
            let written = serde_json::to_string_pretty(&put).expect("it is JSON");
            assert_eq!(
                written,
                serde_json::to_string_pretty(&value).expect("it is")
            );
        }
        let names = std::fs::read_dir(folder.path()).expect("it is there");
        assert_eq!(names.count(), 0);
    }

    #[test]
    fn where_nothing_can_be_put_it_stays() {
        let mut aside = Aside::new(Path::new("/nowhere/at all"));
        let held = Json::written(&json!("x".repeat(SHORT)));
        assert_eq!(aside.put(held.clone()).text(), held.text());
        assert!(aside.file.is_none());
    }
}
