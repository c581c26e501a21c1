//! Limits slow headers, and answers that nobody takes, without affecting idle connections.
//!
//! hyper's `header_read_timeout` also runs while a kept connection is idle, so it must be long. Here the time
//! counts from a request's first byte, so it can be short: a client that sends its header in a trickle is cut
//! off, a client that waits before its next request is not.
//!
//! hyper waits for ever for a client that does not read, or reads a byte now and then, with the answer in memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::limits::Limits;

/// How much of an answer that waits for it a client takes in [`Limits::stalled`], or else whatever is left.
const ENOUGH: usize = 64 << 10;

const IDLE: u8 = 0;
const RECEIVING: u8 = 1;
const SERVING: u8 = 2;

/// The phase of a connection, as its service reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    /// The header is complete, and the handler works.
    pub(super) fn serving(&self) {
        self.0.store(SERVING, Ordering::Relaxed);
    }

    /// The response is complete, and the next byte begins another request.
    pub(super) fn idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    /// Nothing of a request is there, and no answer is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == IDLE
    }

    /// The header of a request has begun, and has not ended.
    pub(super) fn is_receiving(&self) -> bool {
        self.0.load(Ordering::Relaxed) == RECEIVING
    }

    /// Whether these bytes are the first of a request.
    fn begin(&self) -> bool {
        self.0.compare_exchange(IDLE, RECEIVING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A stream whose reads fail once a header takes too long, and its writes once the other end takes little for too long.
pub(super) struct SlowPeer<S> {
    stream: S,
    phase: Phase,
    limits: Limits,
    deadline: Pin<Box<Sleep>>,
    /// While an answer waits for the other end.
    stalled: Option<Stalled>,
}

/// Until when the other end is to take how much more.
struct Stalled {
    until: Pin<Box<Sleep>>,
    missing: usize,
}

impl<S> SlowPeer<S> {
    pub(super) fn new(stream: S, phase: Phase, limits: Limits) -> Self {
        let deadline = Box::pin(tokio::time::sleep(limits.header));
        Self { stream, phase, limits, deadline, stalled: None }
    }

    /// What a write has come to, by which the other end has taken so much; or that it takes too long.
    fn in_time<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        taken: impl FnOnce(&T) -> usize,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(written) = written {
            let taken = written.as_ref().map_or(0, taken);
            self.stalled.take_if(|stalled| {
                stalled.missing = stalled.missing.saturating_sub(taken);
                stalled.missing == 0
            });
            return Poll::Ready(written);
        }
        let limit = self.limits.stalled;
        let stalled = self
            .stalled
            .get_or_insert_with(|| Stalled { until: Box::pin(tokio::time::sleep(limit)), missing: ENOUGH });
        ready!(stalled.until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nobody takes the answer")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for SlowPeer<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let this = &mut *self;
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Pending if this.phase.is_receiving() => {
                ready!(this.deadline.as_mut().poll(context));
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the header took too long")))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(done) => {
                if buffer.filled().len() > before && this.phase.begin() {
                    this.deadline.as_mut().reset(Instant::now() + this.limits.header);
                }
                Poll::Ready(done)
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for SlowPeer<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(written, |taken| *taken, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_flush(context);
        // Nothing waits any more.
        self.in_time(written, |()| usize::MAX, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.in_time(written, |taken| *taken, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    /// How long it takes to send an answer to a client that takes so many bytes at a time, a second apart; `None`: it is given up.
    async fn sent(answer: usize, at_a_time: usize) -> Option<u64> {
        let (ours, mut theirs) = duplex(1024);
        let mut peer = SlowPeer::new(ours, Phase::default(), Limits::default());
        let begun = Instant::now();
        let writing = async {
            peer.write_all(&vec![b'a'; answer]).await?;
            peer.flush().await
        };
        let reading = async {
            let mut part = vec![0; at_a_time];
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                theirs.read_exact(&mut part).await.unwrap();
            }
        };
        let written: io::Result<()> = tokio::select! {
            written = writing => written,
            () = reading => unreachable!("it reads for ever"),
        };
        match written {
            Ok(()) => Some(begun.elapsed().as_secs()),
            Err(error) => {
                assert_eq!((error.kind(), begun.elapsed().as_secs()), (io::ErrorKind::TimedOut, 30));
                None
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_taken_at_a_least_rate_or_given_up() {
        for (answer, at_a_time, expected) in [
            // Byte by byte, and a little less than enough.
            (200 << 10, 1, None),
            (200 << 10, 2000, None),
            (200 << 10, 2300, Some(89)),
            // What is left may be less than enough.
            (1024, 1, Some(0)),
            (1034, 1, Some(10)),
            (40 << 10, 1000, None),
        ] {
            assert_eq!(sent(answer, at_a_time).await, expected, "{answer} bytes, {at_a_time} at a time");
        }
    }

    /// Events come seldom, and few bytes: what was taken once says nothing about the next.
    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_slowly_is_not_given_up() {
        let (ours, mut theirs) = duplex(16);
        let mut peer = SlowPeer::new(ours, Phase::default(), Limits::default());
        for _ in 0..10 {
            let writing = async {
                peer.write_all(&[b'a'; 20]).await.unwrap();
                peer.flush().await.unwrap();
            };
            let reading = async {
                tokio::time::sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut [0; 20]).await.unwrap();
            };
            tokio::join!(writing, reading);
        }
    }
}
