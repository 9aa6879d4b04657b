//! One connection: read, run the batch of commands that has arrived, write all its replies, again.
//!
//! Invariants:
//! - The worker's client is locked for a batch, not for each command, and never while the peer is
//!   waited for.
//! - A batch ends early when its replies reach [`OUTPUT_BYTES_MAX`]: they are sent before anything
//!   more is run or read. So a peer that sends and does not read costs memory for one batch and one
//!   reply, and its own sending comes to a halt.
//! - Replies leave after the batches of all connections that were ready together, if they are
//!   short; nobody waits for more than these.
//! - A connection that waits for its peer holds no buffer, unless a command has arrived in part.
//!   The buffers are the worker's: with many connections the same few stay in the processor's
//!   cache.

use crate::ahead::{Ahead, Stopped};
use crate::command::{self, Client, Context, Id, SPECS};
use crate::counters::Shared;
use crate::resp::{Output, Parser, ProtocolError, Reply};
use crate::session::Session;
use crate::worker::{Resident, Worker};
use atoll_cache::Engine;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context as TaskContext, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Replies are sent once they are so long.
pub(crate) const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Replies of so many bytes, of all connections of a worker, wait until others have run theirs: no
/// more than a processor's cache takes.
const REPLIES_BYTES_MAX: usize = 256 << 10;
/// Room that a read finds at least.
const READ_BYTES_MIN: usize = 16 << 10;
/// Most room that is made for an argument that has been announced and has not arrived.
const READ_BYTES_MAX: usize = 4 << 20;

/// One connection.
pub(crate) struct Connection<S> {
    stream: S,
    parser: Parser,
    session: Session,
    /// What has arrived; `start` is where the first command that has not been run begins.
    input: Vec<u8>,
    start: usize,
    /// Bytes received and sent since the client was last locked, which is when they are counted.
    bytes_in: usize,
    bytes_out: usize,
}

/// Why a batch ended.
enum Ended {
    /// More must arrive.
    Drained,
    /// The replies are long enough to be sent.
    Full,
    /// The connection is to be closed.
    Closing,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Connection `id` over `stream`.
    pub(crate) fn new(stream: S, id: u64) -> Self {
        let (parser, session) = (Parser::new(), Session::new(id));
        Self { stream, parser, session, input: Vec::new(), start: 0, bytes_in: 0, bytes_out: 0 }
    }

    /// Serves it until it ends: by the peer, by an error of the network (which is nobody's concern
    /// but the peer's), or because the server stops.
    pub(crate) async fn serve<G: Engine>(mut self, worker: &Worker<G>, resident: &Resident) -> io::Result<()> {
        while self.receive(worker, resident).await? {
            loop {
                let mut output = worker.outputs.take();
                let ended = pin!(self.run_batch(worker, &mut output)).await;
                if matches!(ended, Ended::Drained) {
                    self.keep_rest(worker);
                }
                if !output.is_empty() {
                    self.bytes_out += output.len();
                    self.let_others_run(worker, output.len()).await;
                    output.send(&mut self.stream).await?;
                }
                worker.outputs.give(output);
                match ended {
                    Ended::Full => {}
                    Ended::Drained => break,
                    Ended::Closing => return Ok(()),
                }
            }
        }
        Ok(())
    }

    /// Waits for bytes; `false` if none will come, or the server stops.
    async fn receive<G: Engine>(&mut self, worker: &Worker<G>, resident: &Resident) -> io::Result<bool> {
        std::future::poll_fn(|cx| self.poll_receive(cx, worker, resident)).await
    }

    fn poll_receive<G: Engine>(
        &mut self,
        cx: &mut TaskContext<'_>,
        worker: &Worker<G>,
        resident: &Resident,
    ) -> Poll<io::Result<bool>> {
        if worker.stopping.get() {
            return Poll::Ready(Ok(false));
        }
        if self.input.capacity() == 0 {
            self.input = worker.buffers.take();
        }
        let room = self.parser.bytes_expected().saturating_sub(self.input.len()).clamp(READ_BYTES_MIN, READ_BYTES_MAX);
        self.input.reserve(room);
        // The future of `read_buf` holds nothing between two polls, so a new one goes on where
        // another left off. It clears tokio's readiness when the socket had less than there was
        // room for, which saves the call that would find nothing.
        let read = pin!(self.stream.read_buf(&mut self.input));
        match std::future::Future::poll(read, cx) {
            Poll::Ready(Ok(bytes)) => {
                self.bytes_in += bytes;
                Poll::Ready(Ok(bytes > 0))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                resident.waits(cx.waker());
                if self.input.is_empty() {
                    worker.buffers.give(std::mem::take(&mut self.input));
                }
                Poll::Pending
            }
        }
    }

    /// Runs the commands that have arrived, as many as one batch may have.
    async fn run_batch<G: Engine>(&mut self, worker: &Worker<G>, output: &mut Output) -> Ended {
        let mut client = match worker.client.try_lock() {
            Ok(client) => client,
            Err(_) => worker.client.lock().await,
        };
        client.tally.bytes_in += std::mem::take(&mut self.bytes_in) as u64;
        client.tally.bytes_out += std::mem::take(&mut self.bytes_out) as u64;
        let mut ahead = std::mem::take(&mut client.ahead);
        let ended = loop {
            let stopped = ahead.parse(&mut self.parser, &self.input, self.start);
            if let Some(ended) = pin!(self.run_parsed(&ahead, &mut client, worker, output)).await {
                break ended;
            }
            match stopped {
                Stopped::Enough => {}
                Stopped::Drained => break Ended::Drained,
                Stopped::Invalid(error) => {
                    refuse(&mut client, output, &self.session, error);
                    break Ended::Closing;
                }
            }
        };
        client.ahead = ahead;
        ended
    }

    /// Runs the commands that have been parsed; `None` when all of them have been run and the batch
    /// goes on.
    #[inline]
    async fn run_parsed<G: Engine>(
        &mut self,
        ahead: &Ahead,
        client: &mut Client<G>,
        worker: &Worker<G>,
        output: &mut Output,
    ) -> Option<Ended> {
        {
            let keys = ahead.keys(&self.parser, &self.input);
            if !keys.is_empty() {
                client.cache.expect(&keys).await;
            }
        }
        for index in 0..ahead.len() {
            let (id, args, end) = ahead.command(index, &self.parser, &self.input);
            if args.len() > 0 {
                let reply = Reply::new(output, self.session.protocol);
                let (shared, session) = (&*worker.shared, &mut self.session);
                pin!(run(id, Context { client: &mut *client, session, shared, args, reply, spec: &SPECS[0] })).await;
            }
            self.start = end;
            if self.session.closing {
                return Some(Ended::Closing);
            }
            if output.len() >= OUTPUT_BYTES_MAX {
                // What has been parsed behind this command is parsed again.
                self.parser.restart();
                return Some(Ended::Full);
            }
        }
        None
    }

    /// Lets the other connections that are ready run their batches before the replies of this one,
    /// so many bytes, are sent. Replies that leave one behind the other wake the process that they
    /// all go to once, if it sleeps; and to wake it costs as much as some commands do.
    async fn let_others_run<G: Engine>(&self, worker: &Worker<G>, bytes: usize) {
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

    /// Keeps the part of a command that has arrived at the front of the buffer; gives the buffer
    /// back if there is none.
    fn keep_rest<G: Engine>(&mut self, worker: &Worker<G>) {
        if self.start == self.input.len() {
            self.input.clear();
            worker.buffers.give(std::mem::take(&mut self.input));
        } else {
            self.input.drain(..self.start);
        }
        self.start = 0;
    }
}

/// Runs one command, and takes its time if it is one to be sampled.
///
/// The state of a command under way is large, because that of the largest one is. Here and on the
/// way to here such states are pinned before they are awaited: then they are made where they stay.
/// An await alone moves them there, all their bytes, which cost a fifth of the time.
#[inline]
async fn run<G: Engine>(id: Option<Id>, mut context: Context<'_, G>) {
    let sampled = context.client.tally.begin();
    pin!(command::run(id, &mut context)).await;
    if let Some(began) = sampled {
        context.client.tally.sampled(began.elapsed());
    }
}

fn refuse<G: Engine>(client: &mut Client<G>, output: &mut Output, session: &Session, error: ProtocolError) {
    client.tally.errors += 1;
    Reply::new(output, session.protocol).error(format_args!("ERR Protocol error: {error}"));
}

/// Tells a peer that there are too many already. It is told only what its socket takes at once:
/// nobody waits for it.
pub(crate) fn refuse_peer<S: AsyncWrite + Unpin>(stream: &mut S, shared: &Shared) {
    shared.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let mut cx = TaskContext::from_waker(std::task::Waker::noop());
    let _ = Pin::new(stream).poll_write(&mut cx, b"-ERR max number of clients reached\r\n");
}
