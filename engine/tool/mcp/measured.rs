//! Lines that are measured as they are read: the library drops what is too long, and whoever waits for it would not know.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::watch,
};

/// What a server says, in lines.
pub(super) struct Measured<R> {
    inner: R,
    most: usize,
    /// Of the line that is read.
    length: usize,
    /// How many lines were too long.
    too_long: watch::Sender<usize>,
}

impl<R> Measured<R> {
    pub(super) fn new(inner: R, most: usize, too_long: watch::Sender<usize>) -> Measured<R> {
        Measured {
            inner,
            most,
            length: 0,
            too_long,
        }
    }

    fn measure(&mut self, piece: &[u8]) {
        for part in piece.split_inclusive(|it| *it == b'\n') {
            let was_within = self.length <= self.most;
            self.length += part.len();
            if was_within && self.length > self.most {
                self.too_long.send_modify(|it| *it += 1);
            }
            if part.ends_with(b"\n") {
                self.length = 0;
            }
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Measured<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        self.measure(&buffer.filled()[before..]);
        Poll::Ready(Ok(()))
    }
}
