//! One connection. It reads, runs the batch of commands that has arrived, writes all replies, and
//! repeats.
//!
//! Invariants:
//! - Batches of one connection run one after the other, and so do the commands of a batch: replies
//!   are in order. Batches of different connections may run at once.
//! - A batch ends early when its replies reach
//!   [`OUTPUT_BYTES_MAX`](super::protocol::OUTPUT_BYTES_MAX). They are sent before the connection
//!   runs or reads more. So a peer that sends and does not read costs memory for one batch and one
//!   reply, and then cannot send more.
//! - Short replies are sent after the batches of all connections that were ready together. They
//!   wait for no other batch.
//! - What other threads have posted is sent behind the replies of a batch, or at once while the
//!   connection waits.
//! - A connection that waits for its peer holds no buffer, unless a part of a command has arrived.
//!   The buffers belong to the worker: with many connections the same few stay in the processor's
//!   cache.

use super::counters::Shared;
use super::first;
use super::handle::Handle;
use super::output::Output;
use super::protocol::{Ended, Protocol};
use super::socket::{Outgoing, Socket};
use super::worker::{Resident, Worker};
use atoll_cache::{Engine, Reading};
use atoll_fabric::Pace;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWrite};

/// When the waiting replies of a worker's connections have this many bytes, they wait for no other
/// batch: more would not fit a processor's cache.
const REPLIES_BYTES_MAX: usize = 256 << 10;
/// Room that a read finds at least.
const READ_BYTES_MIN: usize = 16 << 10;
/// The most room that is made for an argument that was announced and has not arrived.
const READ_BYTES_MAX: usize = 4 << 20;

/// What a connection that waited finds.
enum Arrived {
    /// Bytes of its peer.
    Input,
    /// Bytes for its peer.
    Posted,
    /// Nothing will come, or the server stops.
    Nothing,
}

/// One connection.
pub(super) struct Connection<'s, P: Protocol> {
    socket: &'s mut Socket,
    handle: Arc<Handle>,
    /// What the protocol knows of it.
    state: P::State,
    /// What has arrived; `start` is where the first command that has not been run begins.
    input: Vec<u8>,
    start: usize,
    /// What has come and gone since it was counted last, which is before a batch and at the end.
    traffic: Traffic,
}

/// Bytes received and sent, and how many times.
#[derive(Default)]
struct Traffic {
    bytes_in: usize,
    bytes_out: usize,
    reads: u32,
    writes: u32,
}

impl<'s, P: Protocol> Connection<'s, P> {
    /// The connection of that handle over `socket`.
    pub(super) fn new(protocol: &P, socket: &'s mut Socket, handle: Arc<Handle>) -> Self {
        let state = protocol.connect(&handle);
        Self { socket, handle, state, input: Vec::new(), start: 0, traffic: Traffic::default() }
    }

    /// Serves the connection until the peer ends it, the network fails, or the server stops. A
    /// failure of the network affects this peer only.
    pub(super) async fn serve<G: Engine + 'static>(
        mut self,
        worker: &Worker<P, G>,
        resident: &Resident,
    ) -> io::Result<()> {
        let ended = pin!(self.converse(worker, resident)).await;
        self.count(worker);
        ended
    }

    /// Counts what has come and gone.
    #[inline]
    fn count<G: Engine + 'static>(&mut self, worker: &Worker<P, G>) {
        let Traffic { bytes_in, bytes_out, reads, writes } = std::mem::take(&mut self.traffic);
        let mut tally = worker.tally.borrow_mut();
        tally.bytes_in += bytes_in as u64;
        tally.bytes_out += bytes_out as u64;
        tally.reads += u64::from(reads);
        tally.writes += u64::from(writes);
    }

    async fn converse<G: Engine + 'static>(&mut self, worker: &Worker<P, G>, resident: &Resident) -> io::Result<()> {
        loop {
            match self.receive(worker, resident).await? {
                Arrived::Nothing => return Ok(()),
                Arrived::Posted => {
                    let mut output = worker.outputs.take();
                    self.handle.take_posted(&mut output);
                    pin!(self.send_with_others(worker, resident, &mut output)).await?;
                    worker.outputs.give(output);
                    // A subscriber may be silent for as long as it lives.
                    self.count(worker);
                    continue;
                }
                Arrived::Input => {}
            }
            loop {
                let mut output = worker.outputs.take();
                let ended = pin!(self.run_batch(worker, &mut output)).await;
                if matches!(ended, Ended::Drained) {
                    self.keep_rest(worker);
                }
                self.handle.take_posted(&mut output);
                pin!(self.send_with_others(worker, resident, &mut output)).await?;
                worker.outputs.give(output);
                match ended {
                    // Others run now, even if nothing was to be sent.
                    Ended::Full => tokio::task::yield_now().await,
                    Ended::Drained => break,
                    Ended::Closing => return Ok(()),
                    Ended::Waits => {
                        self.handle.has_input(&self.input, self.start);
                        let handle = &self.handle;
                        let waited = worker.protocol.wait(&mut self.state);
                        // What is posted meanwhile is sent with the next batch, whose first command
                        // waits again.
                        let is_over = || worker.stopping.get() || handle.has_posted();
                        let interrupted =
                            std::future::poll_fn(|_| if is_over() { Poll::Ready(()) } else { Poll::Pending });
                        unless_ended(handle, resident, first(waited, interrupted)).await?;
                        if worker.stopping.get() {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    /// Waits for bytes, those of other threads among them.
    async fn receive<G: Engine + 'static>(
        &mut self,
        worker: &Worker<P, G>,
        resident: &Resident,
    ) -> io::Result<Arrived> {
        std::future::poll_fn(|cx| self.poll_receive(cx, worker, resident)).await
    }

    fn poll_receive<G: Engine + 'static>(
        &mut self,
        cx: &mut TaskContext<'_>,
        worker: &Worker<P, G>,
        resident: &Resident,
    ) -> Poll<io::Result<Arrived>> {
        if self.handle.is_ending() {
            return Poll::Ready(Ok(Arrived::Nothing));
        }
        if self.handle.has_posted() {
            return Poll::Ready(Ok(Arrived::Posted));
        }
        if worker.stopping.get() {
            return Poll::Ready(Ok(Arrived::Nothing));
        }
        if self.input.capacity() == 0 {
            self.input = worker.buffers.take();
        }
        let room =
            P::bytes_expected(&self.state).saturating_sub(self.input.len()).clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        self.input.reserve(room);
        // The future of `read_buf` holds nothing between two polls, so a new one goes on where
        // another left off. It clears tokio's readiness when the socket had less than there was
        // room for, which saves the call that would find nothing.
        let read = pin!(self.socket.read_buf(&mut self.input));
        match std::future::Future::poll(read, cx) {
            Poll::Ready(Ok(bytes)) => {
                self.traffic.bytes_in += bytes;
                self.traffic.reads += u32::from(bytes > 0);
                self.handle.has_input(&self.input, self.start);
                resident.set_idle(false);
                self.handle.heard(worker.now_ms.get());
                Poll::Ready(Ok(if bytes > 0 { Arrived::Input } else { Arrived::Nothing }))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                resident.waits(cx.waker());
                resident.set_idle(true);
                if self.input.is_empty() {
                    worker.buffers.give(std::mem::take(&mut self.input));
                } else {
                    self.handle.has_input(&self.input, self.start);
                }
                Poll::Pending
            }
        }
    }

    /// Runs the commands that have arrived, as many as one batch may have.
    #[inline]
    async fn run_batch<G: Engine + 'static>(&mut self, worker: &Worker<P, G>, output: &mut Output) -> Ended {
        let _under_way = worker.begin();
        let cache = worker.cache();
        worker.waiters.note_batch();
        self.count(worker);
        let mut scratch = worker.scratches.take();
        let Self { state, input, start, .. } = self;
        let ended = {
            let batch = pin!(worker.protocol.run(state, &mut scratch, worker.client(&cache), input, start, output));
            worker.asking(batch).await
        };
        worker.scratches.give(scratch);
        ended
    }

    /// Sends what there is, once the other ready connections have run their batches.
    #[inline]
    async fn send_with_others<G: Engine + 'static>(
        &mut self,
        worker: &Worker<P, G>,
        resident: &Resident,
        output: &mut Output,
    ) -> io::Result<()> {
        if output.is_empty() {
            return Ok(());
        }
        self.let_others_run(worker, output.len()).await;
        self.send(worker, resident, output).await
    }

    /// Sends replies, as far as the limits permit.
    async fn send<G: Engine + 'static>(
        &mut self,
        worker: &Worker<P, G>,
        resident: &Resident,
        output: &mut Output,
    ) -> io::Result<()> {
        let limit = worker.shared.limits.output(self.handle.is_listener());
        let bytes = output.len() as u64;
        if limit.hard_bytes > 0 && bytes > limit.hard_bytes {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        self.handle.owes(output);
        resident.set_idle(true);
        static TORN: Pace = Pace::new();
        let read_on = async |reading: &mut Reading, into: &mut [u8]| {
            let cache = worker.cache();
            match worker.asking(pin!(cache.read_on(reading, into))).await {
                Ok(true) => Ok(()),
                Ok(false) => {
                    if let Some(more) = TORN.line() {
                        tracing::warn!(
                            "connection {} ends within a value that another process has replaced or evicted{more}",
                            self.handle.id
                        );
                    }
                    Err(io::ErrorKind::ConnectionAborted.into())
                }
                Err(error) => Err(io::Error::other(error)),
            }
        };
        let mut stream = Outgoing { socket: self.socket, handle: &self.handle, now_ms: &worker.now_ms };
        let sent = unless_ended(&self.handle, resident, output.send(&mut stream, read_on));
        match limit.soft_bytes > 0 && bytes > limit.soft_bytes {
            true => tokio::time::timeout(Duration::from_secs(limit.soft_s), sent).await???,
            false => sent.await??,
        }
        resident.set_idle(false);
        self.handle.owes(output);
        self.traffic.bytes_out += bytes as usize;
        self.traffic.writes += 1;
        Ok(())
    }

    /// Lets the other ready connections run their batches before this connection's replies, which
    /// have that many bytes, are sent. If replies leave one after another, a sleeping process that
    /// receives them all is woken once. A wake-up costs as much as several commands.
    async fn let_others_run<G: Engine + 'static>(&self, worker: &Worker<P, G>, bytes: usize) {
        let waiting = worker.replies_bytes.get() + bytes;
        if waiting > REPLIES_BYTES_MAX {
            return;
        }
        worker.replies_bytes.set(waiting);
        let mut asked = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut asked, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        worker.replies_bytes.set(worker.replies_bytes.get() - bytes);
    }

    /// Moves the part of a command that has arrived to the front of the buffer. Without such a part
    /// it returns the buffer to the worker.
    fn keep_rest<G: Engine + 'static>(&mut self, worker: &Worker<P, G>) {
        if self.start == self.input.len() {
            self.input.clear();
            worker.buffers.give(std::mem::take(&mut self.input));
        } else {
            self.input.drain(..self.start);
        }
        self.start = 0;
        self.handle.has_input(&self.input, self.start);
    }
}

/// Waits for a future, unless the connection is to end.
pub(super) async fn unless_ended<T>(
    handle: &Handle,
    resident: &Resident,
    future: impl Future<Output = T>,
) -> io::Result<T> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| {
        if handle.is_ending() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let polled = future.as_mut().poll(cx);
        if polled.is_pending() {
            resident.waits(cx.waker());
        }
        polled.map(Ok)
    })
    .await
}

/// Tells a peer why its connection is refused. It sends only what the socket accepts at once: the
/// server does not wait.
pub(super) fn refuse_peer<S: AsyncWrite + Unpin>(stream: &mut S, shared: &Shared, why: &[u8]) {
    shared.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut cx = TaskContext::from_waker(std::task::Waker::noop());
    let _ = Pin::new(stream).poll_write(&mut cx, why);
}
