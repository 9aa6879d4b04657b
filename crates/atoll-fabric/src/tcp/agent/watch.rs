//! A watch: the process that exported a region follows it, and is told of every change.
//!
//! A verb that changes the region records the change here, in its log. The watch's connection takes
//! notices from the log. The answer of a batch that touched the region waits until the follower has
//! seen all changes that were recorded by then: a [`Gate`]. So a word that a client has read from
//! the region is also one that the follower has seen.
//!
//! The follower answers for its words while it has a lease. It asks for one by a ping. The lease
//! lasts [`AgentOptions::watch_lease`](super::AgentOptions::watch_lease) from the pong on; the
//! follower itself relies on three quarters of it, from the ping on.
//!
//! | phase | begins | gates | pings |
//! |---|---|---|---|
//! | beginning | with the watch: the present words are told | open at once | wait |
//! | live | when the follower has seen those words | wait for the follower | answered, unless a change is unseen for a quarter of a lease |
//! | closing | when the session ends, or the log is full | wait for the end | not answered |
//! | over | see below | open | not answered |
//!
//! | a watch is over | why that is safe |
//! |---|---|
//! | when the follower leaves | its process has set its mark before |
//! | a lease after the last pong | its process answers no more, by its own clock |
//! | when it closes or its connection ends before the first pong | its process did not answer yet |
//!
//! The first ping is answered once the follower has seen all changes from before the watch was
//! live, for these had no gates. A broken connection proves nothing: its process may go on for as
//! long as its lease lasts. The endpoint of an ended session ([`Departed`]) is kept until its
//! watches are over, so that no writer misses the region earlier.
//!
//! | limit | of |
//! |---|---|
//! | one and a quarter lease | how long a gate waits for a follower that stands still |
//! | [`LOG_WORDS_MAX`] | the log, and a frame more |
//! | one entry for each connection | those that wait for the watch |

use super::Waiter;
use super::ending::{Elsewhere, Ending};
use crate::Pace;
use crate::shm::{ShmEndpoint, ShmRegion};
use crate::tcp::notice::{SPAN_WORDS_MAX, push_frame, push_span, spans_that_fit};
use crate::tcp::wire::{HEAD_WORDS, Head, Kind, Status};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Words of the changes that are not told yet, at most. A watch with more is closed.
const LOG_WORDS_MAX: usize = 512 << 10;
/// Words of the region that one frame looks at, while the present words are told.
const SWEEP_WORDS: usize = 32 << 10;
/// How long the follower may take to see the present words.
const BEGINNING_MAX: Duration = Duration::from_secs(10);

/// How far a watch has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Beginning,
    Live,
    Closing,
    Over,
}

/// One.
pub(crate) struct Watch {
    /// Words of the region.
    words: usize,
    lease: Duration,
    /// Changes that the follower has seen. It only grows, under the lock of the state.
    seen: AtomicU64,
    /// Set once, under the same lock.
    is_over: AtomicBool,
    /// Its own connection.
    follower: Waiter,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// Changes recorded; the present words of the beginning count as one.
    recorded: u64,
    /// Changes that were told, at most `recorded`.
    told: u64,
    /// Spans that are not told, in order.
    log: Vec<u64>,
    /// Words whose value from the beginning was told, or need not be.
    swept: usize,
    /// `recorded` when it became live.
    live_from: u64,
    /// When the phase began, or the last pong was sent.
    lease_from: Instant,
    /// Whether a pong was sent.
    has_lease: bool,
    /// The time of the latest ping that is not answered.
    ping: Option<u64>,
    /// The pong to be sent.
    pong: Option<u64>,
    /// Changes that may be unseen, in order, with a time at or before each: all that were recorded
    /// from one entry to the next.
    unseen: VecDeque<(u64, Instant)>,
    /// Connections whose front gate waits for a count.
    waiting: Vec<(u64, Waiter)>,
    /// Whether its own connection was called, and has not told everything since.
    is_called: bool,
    has_told_end: bool,
    is_abandoned: bool,
    departed: Option<Arc<Mutex<Departed>>>,
}

/// What an ended session leaves, until its watches are over.
pub(super) struct Departed {
    pub(super) endpoint: Option<ShmEndpoint>,
    pub(super) elsewhere: Vec<Elsewhere>,
    pub(super) ending: Ending,
}

impl Drop for Departed {
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint.take()
            && !self.elsewhere.is_empty()
        {
            self.ending.add(endpoint, std::mem::take(&mut self.elsewhere));
        }
    }
}

/// What an answer waits for: that the follower of a watch has seen so many changes.
pub(crate) struct Gate {
    watch: Arc<Watch>,
    count: u64,
}

impl Gate {
    /// Adds a gate to those of a batch, if it is closed: one for each watch.
    pub(crate) fn note(gates: &mut Vec<Self>, watch: &Arc<Watch>, count: Option<u64>) {
        let Some(count) = count else { return };
        match gates.iter_mut().find(|gate| Arc::ptr_eq(&gate.watch, watch)) {
            Some(gate) => gate.count = count.max(gate.count),
            None => gates.push(Self { watch: watch.clone(), count }),
        }
    }

    /// Whether it is open. If not, the connection is called once it is.
    pub(super) fn is_open_or_calls(&self, connection: &Waiter) -> bool {
        if self.watch.is_passed(self.count) {
            return true;
        }
        let mut state = self.watch.state();
        if self.watch.is_passed(self.count) {
            return true;
        }
        match state.waiting.iter_mut().find(|(_, waiter)| waiter.is(connection)) {
            Some((count, _)) => *count = self.count.min(*count),
            None => state.waiting.push((self.count, connection.clone())),
        }
        false
    }
}

impl Watch {
    pub(super) fn new(words: usize, lease: Duration, follower: Waiter) -> Self {
        let state = State {
            phase: Phase::Beginning,
            recorded: 1,
            told: 0,
            log: Vec::new(),
            swept: 0,
            live_from: 0,
            lease_from: Instant::now(),
            has_lease: false,
            ping: None,
            pong: None,
            unseen: VecDeque::new(),
            waiting: Vec::new(),
            is_called: false,
            has_told_end: false,
            is_abandoned: false,
            departed: None,
        };
        let (seen, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { words, lease, seen, is_over, follower, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the follower's process is known not to answer for its words any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn is_passed(&self, count: u64) -> bool {
        self.seen.load(Ordering::SeqCst) >= count || self.is_over()
    }

    fn seen(&self) -> u64 {
        self.seen.load(Ordering::SeqCst)
    }

    /// Records that `count` words from one on have changed, or none. `load` gives those behind the
    /// first so many of them. The caller holds the region's lock. Gives the changes that the
    /// follower is to see before the verb has completed.
    pub(crate) fn record(&self, first: usize, count: usize, load: impl Fn(usize, &mut [u64])) -> Option<u64> {
        let mut state = self.state();
        if count > 0 && matches!(state.phase, Phase::Beginning | Phase::Live) {
            state.recorded += 1;
            for start in (0..count).step_by(SPAN_WORDS_MAX) {
                let span = SPAN_WORDS_MAX.min(count - start);
                load(start, push_span(&mut state.log, first + start, span));
            }
            if state.phase == Phase::Live {
                state.note_unseen(self.lease);
            }
            if state.log.len() > LOG_WORDS_MAX {
                state.close();
            }
            if !std::mem::replace(&mut state.is_called, true) {
                self.follower.call();
            }
        } else if count > 0 {
            // No follower sees it. The gate opens at the end.
            state.recorded += 1;
        }
        let waits = matches!(state.phase, Phase::Live | Phase::Closing) && self.seen() < state.recorded;
        waits.then_some(state.recorded)
    }

    /// Appends the next frames for the follower; whether there are more.
    pub(super) fn tell(&self, region: &ShmRegion, out: &mut Vec<u64>) -> bool {
        let mut state = self.state();
        if let Some(time) = state.pong.take() {
            push_frame(out, Kind::Pong, &[time]);
        }
        if matches!(state.phase, Phase::Closing | Phase::Over) {
            if !std::mem::replace(&mut state.has_told_end, true) {
                push_frame(out, Kind::End, &[]);
            }
            return false;
        }
        if state.swept < self.words || !state.log.is_empty() {
            let at = out.len();
            out.resize(at + HEAD_WORDS + 1, 0);
            if state.swept < self.words {
                state.sweep(region, self.words, out);
            } else {
                let taken = spans_that_fit(&state.log);
                out.extend(state.log.drain(..taken));
                state.log.shrink_to(LOG_WORDS_MAX / 16);
            }
            if state.swept == self.words && state.log.is_empty() {
                state.told = state.recorded;
            }
            out[at + HEAD_WORDS] = state.told;
            let head = Head::new(Kind::Notice, 0, out.len() - at - HEAD_WORDS);
            out[at..at + HEAD_WORDS].copy_from_slice(&head.encode());
        }
        let has_more = state.swept < self.words || !state.log.is_empty();
        state.is_called = has_more;
        has_more
    }

    /// The follower has seen so many changes.
    pub(super) fn hear_seen(&self, count: u64) -> Result<(), Status> {
        let mut state = self.state();
        if count > state.told {
            return Err(Status::Malformed);
        }
        if count <= self.seen() {
            return Ok(());
        }
        self.seen.store(count, Ordering::SeqCst);
        if state.phase == Phase::Beginning {
            let now = Instant::now();
            (state.phase, state.live_from, state.lease_from) = (Phase::Live, state.recorded, now);
            if count < state.recorded {
                state.unseen.push_back((count + 1, now));
            }
        }
        state.forget_seen(count);
        state.answer_ping(count, self.lease);
        let opened: Vec<_> = state.waiting.extract_if(.., |(wanted, _)| *wanted <= count).collect();
        drop(state);
        opened.iter().for_each(|(_, waiter)| waiter.call());
        Ok(())
    }

    /// The follower has asked for a lease.
    pub(super) fn hear_ping(&self, time: u64) {
        let mut state = self.state();
        state.ping = Some(time);
        state.answer_ping(self.seen(), self.lease);
    }

    /// The follower's process answers for its words no more.
    pub(super) fn hear_leave(&self) {
        self.end(self.state());
    }

    /// The session that exports the region has ended, and has left `departed`.
    pub(super) fn close(&self, departed: &Arc<Mutex<Departed>>) {
        let mut state = self.state();
        if state.phase == Phase::Over {
            return;
        }
        state.close();
        if !state.has_lease {
            return self.end(state);
        }
        if !state.is_abandoned {
            state.departed = Some(departed.clone());
        }
        drop(state);
        self.follower.call();
    }

    /// Its connection has ended.
    pub(super) fn part(&self) {
        let mut state = self.state();
        state.close();
        if !state.has_lease {
            self.end(state);
        }
    }

    /// When it is to be looked at; `None` once it is over. It ends if that time has come.
    pub(super) fn look(&self, now: Instant) -> Option<Instant> {
        let state = self.state();
        let due = match state.phase {
            Phase::Over => return None,
            Phase::Closing if !state.has_lease => now,
            Phase::Beginning => state.lease_from + BEGINNING_MAX,
            Phase::Live | Phase::Closing => state.lease_from + self.lease,
        };
        if now < due {
            return Some(due);
        }
        static LOST: Pace = Pace::new();
        if let Some(more) = LOST.line() {
            tracing::warn!("a process did not answer for a region that it follows: the region is gone{more}");
        }
        self.end(state);
        None
    }

    /// Releases what it keeps, and opens no gate: the agent stops.
    pub(super) fn abandon(&self) {
        let mut state = self.state();
        state.is_abandoned = true;
        let departed = state.departed.take();
        drop(state);
        drop(departed);
    }

    fn end(&self, mut state: MutexGuard<'_, State>) {
        if state.phase == Phase::Over {
            return;
        }
        state.phase = Phase::Over;
        self.is_over.store(true, Ordering::SeqCst);
        (state.log, state.unseen) = (Vec::new(), VecDeque::new());
        let (waiting, departed) = (std::mem::take(&mut state.waiting), state.departed.take());
        drop(state);
        waiting.iter().for_each(|(_, waiter)| waiter.call());
        self.follower.call();
        // The endpoint takes its exports along.
        drop(departed);
    }
}

impl State {
    /// No ping is answered from now on.
    fn close(&mut self) {
        if matches!(self.phase, Phase::Beginning | Phase::Live) {
            self.phase = Phase::Closing;
            (self.log, self.ping) = (Vec::new(), None);
        }
    }

    /// Notes when the latest change was recorded. A sixteenth of a lease has one entry.
    fn note_unseen(&mut self, lease: Duration) {
        let now = Instant::now();
        if self.unseen.back().is_none_or(|(_, noted)| now.duration_since(*noted) >= lease / 16) {
            self.unseen.push_back((self.recorded, now));
        }
    }

    fn forget_seen(&mut self, seen: u64) {
        if seen >= self.recorded {
            self.unseen.clear();
        }
        while self.unseen.get(1).is_some_and(|(first, _)| *first <= seen + 1) {
            self.unseen.pop_front();
        }
    }

    /// Answers the latest ping, if the follower keeps up.
    fn answer_ping(&mut self, seen: u64, lease: Duration) {
        let now = Instant::now();
        let is_late = self.unseen.front().is_some_and(|(_, noted)| now.duration_since(*noted) >= lease / 4);
        if self.phase == Phase::Live
            && seen >= self.live_from
            && !is_late
            && let Some(time) = self.ping.take()
        {
            (self.pong, self.lease_from, self.has_lease) = (Some(time), now, true);
        }
    }

    /// Appends the next words of the region that are not zero: the follower begins with zeros.
    fn sweep(&mut self, region: &ShmRegion, words: usize, out: &mut Vec<u64>) {
        let end = words.min(self.swept + SWEEP_WORDS);
        let limit = out.len() + crate::tcp::notice::NOTICE_WORDS_MAX - 1;
        let mut found = [0; 256];
        while self.swept < end && out.len() + 2 * found.len() <= limit {
            let part = &mut found[..256.min(end - self.swept)];
            region.load_words(self.swept, part);
            if part.iter().any(|word| *word != 0) {
                push_span(out, self.swept, part.len()).copy_from_slice(part);
            }
            self.swept += part.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::notice::decode_notice;
    use std::collections::HashMap;

    const LEASE: Duration = Duration::from_secs(60);

    fn watch(region: &ShmRegion, lease: Duration) -> Arc<Watch> {
        region.begin_watch(|words| Watch::new(words, lease, Waiter::of_no_connection())).unwrap()
    }

    /// Takes the frames that there are: the words of all notices, and the last count.
    fn told(watch: &Watch, region: &ShmRegion) -> (HashMap<usize, u64>, Option<u64>, Vec<Kind>) {
        let (mut words, mut count, mut kinds) = (HashMap::new(), None, Vec::new());
        loop {
            let mut out = Vec::new();
            let has_more = watch.tell(region, &mut out);
            let mut rest = &out[..];
            while let Some((head, behind)) = rest.split_first_chunk::<HEAD_WORDS>() {
                let head = Head::decode(*head).unwrap();
                let (body, behind) = behind.split_at(head.words);
                if head.kind == Kind::Notice {
                    count = decode_notice(body, 1 << 20, |at, word| {
                        words.insert(at, word);
                    });
                }
                kinds.push(head.kind);
                rest = behind;
            }
            if !has_more {
                return (words, count, kinds);
            }
        }
    }

    fn record(watch: &Watch, at: usize, value: u64) -> Option<u64> {
        watch.record(at, 1, |_, into| into.fill(value))
    }

    fn live(region: &ShmRegion, lease: Duration) -> Arc<Watch> {
        let watch = watch(region, lease);
        let (_, count, _) = told(&watch, region);
        watch.hear_seen(count.unwrap()).unwrap();
        watch.hear_ping(5);
        assert_eq!(told(&watch, region).2, [Kind::Pong]);
        watch
    }

    #[test]
    fn a_watch_tells_the_present_words_first_and_answers_no_ping_before_they_are_seen() {
        let region = ShmRegion::anonymous(1 << 20).unwrap();
        let watch = watch(&region, LEASE);
        watch.hear_ping(1);
        assert_eq!(record(&watch, 9, 90), None, "no gate: the follower does not answer yet");
        let (words, count, kinds) = told(&watch, &region);
        assert!(words == HashMap::from([(9, 90)]) && kinds.iter().all(|kind| *kind == Kind::Notice), "{kinds:?}");
        assert_eq!(record(&watch, 10, 100), None);
        watch.hear_seen(count.unwrap()).unwrap();
        let (words, count, kinds) = told(&watch, &region);
        assert_eq!((words, kinds), (HashMap::from([(10, 100)]), vec![Kind::Notice]));
        watch.hear_seen(count.unwrap()).unwrap();
        assert_eq!(told(&watch, &region).2, [Kind::Pong], "the last change without a gate is seen");
    }

    #[test]
    fn a_gate_opens_when_its_change_is_seen_and_no_sooner() {
        let region = ShmRegion::anonymous(1 << 16).unwrap();
        let watch = live(&region, LEASE);
        let first = record(&watch, 1, 10).unwrap();
        let second = record(&watch, 1, 20).unwrap();
        let unchanged = watch.record(1, 0, |_, _| {}).unwrap();
        assert_eq!((second, unchanged), (first + 1, second), "a READ waits for what it may have found");
        let gate = |count| Gate { watch: watch.clone(), count };
        let connection = Waiter::of_no_connection();
        assert!(!gate(first).is_open_or_calls(&connection));
        assert_eq!(watch.hear_seen(second), Err(Status::Malformed), "it was not told yet");
        let (words, count, _) = told(&watch, &region);
        assert_eq!((words, count), (HashMap::from([(1, 20)]), Some(second)));
        watch.hear_seen(first).unwrap();
        assert!(gate(first).is_open_or_calls(&connection) && !gate(second).is_open_or_calls(&connection));
        watch.hear_seen(second).unwrap();
        assert!(gate(second).is_open_or_calls(&connection));
        assert_eq!(watch.record(1, 0, |_, _| {}), None);
    }

    #[test]
    fn a_follower_that_sees_nothing_is_lost_though_it_pings_and_its_gates_wait_for_its_lease() {
        let region = ShmRegion::anonymous(1 << 16).unwrap();
        let lease = Duration::from_millis(200);
        let watch = live(&region, lease);
        let gate = Gate { watch: watch.clone(), count: record(&watch, 1, 10).unwrap() };
        let recorded = Instant::now();
        let mut ponged = recorded;
        while watch.look(Instant::now()).is_some() {
            let pinged = Instant::now();
            watch.hear_ping(7);
            if told(&watch, &region).2.contains(&Kind::Pong) {
                ponged = pinged;
                assert!(pinged - recorded < lease, "a ping is answered though a change is unseen for long");
            }
            assert!(!gate.is_open_or_calls(&Waiter::of_no_connection()) || watch.is_over());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(watch.is_over() && ponged.elapsed() >= lease - Duration::from_millis(10));
        assert!(gate.is_open_or_calls(&Waiter::of_no_connection()) && region.is_given_up());
        assert_eq!(record(&watch, 1, 11), None);
        assert!(region.begin_watch(|_| unreachable!("it was watched")).is_none());
    }

    #[test]
    fn a_log_that_is_full_closes_its_watch_and_keeps_its_gates_closed() {
        let region = ShmRegion::anonymous(1 << 16).unwrap();
        let watch = live(&region, LEASE);
        let mut last = 0;
        for _ in 0..LOG_WORDS_MAX / SPAN_WORDS_MAX + 2 {
            last = watch.record(0, SPAN_WORDS_MAX, |_, _| {}).unwrap();
        }
        assert!(watch.state().log.capacity() < 2 * LOG_WORDS_MAX && watch.state().log.is_empty());
        watch.hear_ping(8);
        assert_eq!(told(&watch, &region).2, [Kind::End]);
        let gate = Gate { watch: watch.clone(), count: last };
        assert!(!gate.is_open_or_calls(&Waiter::of_no_connection()));
        watch.hear_leave();
        assert!(gate.is_open_or_calls(&Waiter::of_no_connection()));
    }

    #[test]
    fn an_endpoint_of_an_ended_session_is_kept_until_its_watch_is_over() {
        let region = Arc::new(ShmRegion::anonymous(1 << 16).unwrap());
        let watch = live(&region, LEASE);
        let endpoint = ShmEndpoint::new(region.clone());
        let who = crate::Endpoint::identity(&endpoint);
        let ending = Ending::new(None, None);
        let departed = Arc::new(Mutex::new(Departed { endpoint: Some(endpoint), elsewhere: Vec::new(), ending }));
        watch.close(&departed);
        drop(departed);
        watch.part();
        assert!(!region.is_endpoint_dead(who) && !watch.is_over());
        watch.hear_leave();
        assert!(region.is_endpoint_dead(who));
    }
}
