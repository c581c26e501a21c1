//! A stream that limits slow request headers and stalled answers, without affecting idle connections.
//!
//! hyper's `header_read_timeout` also runs while a kept connection is idle, so that timeout must be long. The
//! timeout in this file runs from a request's first byte, so it can be short: the short timeout cuts off a
//! client that trickles its header, but not a client that waits before its next request.
//!
//! hyper has no timeout for a client that stops reading, or reads a byte now and then; the answer would stay
//! in memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::limits::Limits;

/// Bytes of a waiting answer that a client must read within [`Limits::stalled`], unless less is left.
const ENOUGH: usize = 64 << 10;

const IDLE: u8 = 0;
const RECEIVING: u8 = 1;
const SERVING: u8 = 2;

/// The phase of a connection, as its service reports it.
#[derive(Clone, Debug, Default)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    /// Notes that the header is complete and the handler works.
    pub(super) fn serving(&self) {
        self.0.store(SERVING, Ordering::Relaxed);
    }

    /// Notes that the response is complete, and that the next byte begins a new request.
    pub(super) fn idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    /// Whether the connection has neither a request in progress nor an answer to send.
    pub(super) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == IDLE
    }

    /// Whether a request has begun and its header is incomplete.
    pub(super) fn is_receiving(&self) -> bool {
        self.0.load(Ordering::Relaxed) == RECEIVING
    }

    /// Begins a request if the connection was idle. Returns whether the connection was idle.
    fn begin(&self) -> bool {
        self.0.compare_exchange(IDLE, RECEIVING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

/// A stream whose reads fail once a header takes too long, and whose writes fail once the peer reads too
/// slowly.
pub(super) struct SlowPeer<S> {
    stream: S,
    phase: Phase,
    limits: Limits,
    deadline: Pin<Box<Sleep>>,
    /// Set while an answer waits for the peer to read.
    stalled: Option<Stalled>,
}

/// The time by which the peer must read `missing` more bytes.
struct Stalled {
    until: Pin<Box<Sleep>>,
    missing: usize,
}

impl<S> SlowPeer<S> {
    pub(super) fn new(stream: S, phase: Phase, limits: Limits) -> Self {
        let deadline = Box::pin(tokio::time::sleep(limits.header));
        Self { stream, phase, limits, deadline, stalled: None }
    }

    /// Passes on the result of a write, or fails with `TimedOut` once the peer reads too slowly. `taken`
    /// computes from a result how many bytes the peer has read.
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
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the caller does not read the answer")))
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
                Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    "the request header did not arrive in time",
                )))
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
        // After a flush, no byte waits for the peer.
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

    /// Returns how many seconds it takes to send an answer to a client that reads `at_a_time` bytes each
    /// second; `None` if the connection is given up.
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
            // The rest of an answer may be less than `ENOUGH`.
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
