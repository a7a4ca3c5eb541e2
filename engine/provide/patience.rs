//! A connection whose other side has to read what it is sent, and to send no more than there is room for.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

use super::{
    peers::Unsent,
    places::{Held, Place},
};

/// A stream that is broken when for so long nothing more of what is written was taken, or when more is held of what was
/// read than may be.
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Since when nothing is taken.
    waiting: Option<Pin<Box<Sleep>>>,
    held: Arc<Held>,
    unsent: Arc<Unsent>,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration, place: &Place) -> Patient<S> {
        Patient {
            stream,
            patience,
            waiting: None,
            held: Arc::clone(place.held()),
            unsent: Arc::clone(place.unsent()),
        }
    }

    fn took(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(bytes)) = written {
            self.unsent.take(*bytes);
        }
    }

    fn within<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let patience = self.patience;
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        match self.held.add(buf.filled().len() - before) {
            true => Poll::Ready(Ok(())),
            false => Poll::Ready(Err(io::ErrorKind::OutOfMemory.into())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.took(&written);
        self.within(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.took(&written);
        self.within(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_slowly_is_served_and_whoever_does_not_read_is_not() {
        let patience = Duration::from_secs(10);
        let (ours, mut theirs) = duplex(4);
        let place = Place::alone();
        let mut ours = Patient::new(ours, patience, &place);
        let slow = async {
            let mut read = [0; 4];
            for _ in 0..5 {
                sleep(patience / 2).await;
                theirs.read_exact(&mut read).await.unwrap();
            }
            theirs
        };
        let (written, theirs) = tokio::join!(ours.write_all(&[7; 20]), slow);
        assert!(written.is_ok());
        let written = ours.write_all(&[7; 20]).await;
        assert_eq!(
            written.map_err(|it| it.kind()),
            Err(io::ErrorKind::TimedOut)
        );
        drop(theirs);
    }
}
