//! Standard output, where what models wrote does nothing to a terminal.

use std::io::{self, IsTerminal, Write};

use crate::report::still;

/// Standard output. Whoever reads it from a pipe or a file gets every byte.
pub(super) fn stdout() -> Stdout {
    let out = io::stdout();
    Stdout {
        is_terminal: out.is_terminal(),
        out,
    }
}

pub(super) struct Stdout {
    out: io::Stdout,
    is_terminal: bool,
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        // Texts are written whole, or up to what JSON escapes.
        let text = String::from_utf8_lossy(bytes);
        self.out.write_all(still(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
