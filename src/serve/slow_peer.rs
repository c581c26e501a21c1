//! Limits slow headers, and answers that nobody takes, without affecting idle connections.
//!
//! hyper's `header_read_timeout` also runs while a kept connection is idle, so it must be long. Here the time
//! counts from a request's first byte, so it can be short: a client that sends its header in a trickle is cut
//! off, a client that waits before its next request is not.
//!
//! hyper waits for ever for a client that does not read, with the answer in memory.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::limits::Limits;

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

/// A stream whose reads fail once a header takes too long, and its writes once the other end takes nothing for too long.
pub(super) struct SlowPeer<S> {
    stream: S,
    phase: Phase,
    limits: Limits,
    deadline: Pin<Box<Sleep>>,
    /// When to stop waiting for the other end to read, while it takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> SlowPeer<S> {
    pub(super) fn new(stream: S, phase: Phase, limits: Limits) -> Self {
        let deadline = Box::pin(tokio::time::sleep(limits.header));
        Self { stream, phase, limits, deadline, stalled: None }
    }

    /// What a write has come to, or that it takes too long.
    fn in_time<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.limits.stalled;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(stalled.as_mut().poll(context));
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
        self.in_time(written, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let written = Pin::new(&mut self.stream).poll_flush(context);
        self.in_time(written, context)
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
        self.in_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
