//! What clients of a cache did and saw, and the check that the cache kept promise 1.
//!
//! Each key is checked separately against the sequential cache of `sequential.rs`. A history with
//! the pool's clock ([`History::with_clock`]) also knows the times between which each operation may
//! have judged expiry. Then no value may be served after its expiry, and none may expire before it.

use crate::excerpt::{described, one_line, shortest, text};
use crate::linearizability::{Span, Verdict};
use crate::sequential::verdict;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

pub use crate::event::{Call, Condition, Event, Expiry, Outcome, Seen, Window};
pub use crate::sequential::Evictions;

/// The time, seen past the fabric.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Of the simulation.
    pub ns: u64,
    /// Of the pool's clock, unless its memory is lost.
    pub pool_ms: Option<u64>,
    /// As clients reckon it that do not look at the pool's clock.
    pub reckoned_ms: u64,
}

/// An operation that has not returned.
#[derive(Debug)]
#[must_use = "an operation that is never ended counts as one that may still happen"]
pub struct Pending {
    event: usize,
    /// When it was invoked, if the history has a clock.
    begun_ns: u64,
}

/// Operations of clients of one thread, in the order in which they are told. Clients of several
/// threads merge their events with [`History::from_events`].
#[derive(Default)]
pub struct History {
    events: RefCell<Vec<Event>>,
    stamp: Cell<u64>,
    clock: Option<ObservedClock>,
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("History").field("events", &self.events).finish_non_exhaustive()
    }
}

/// The pool's clock, seen past the fabric.
struct ObservedClock {
    look: Box<dyn Fn() -> Now>,
    /// For how long a client may judge by a time that is over.
    skew_ns: u64,
    /// Looks in order: the last one that is as old as the skew, and all later ones.
    looks: RefCell<VecDeque<(u64, u64)>>,
    /// How long a client reckons from a time that the pool's clock had.
    reckoned_ns: u64,
    /// When it was looked at, and how far the pool's clock was ahead of the reckoned time then.
    ahead: RefCell<Vec<(u64, u64)>>,
}

impl ObservedClock {
    /// The time now.
    fn now(&self) -> Now {
        let now = (self.look)();
        self.looks.borrow_mut().extend(now.pool_ms.map(|pool_ms| (now.ns, pool_ms)));
        let ahead_ms = now.pool_ms.unwrap_or(0).saturating_sub(now.reckoned_ms);
        self.ahead.borrow_mut().push((now.ns, ahead_ms));
        now
    }

    /// The window of an operation that began in another one at `begun_ns`, and ends now.
    fn until_now(&self, begun: Window, begun_ns: u64) -> Window {
        let now = self.now();
        let Some(most_ms) = now.pool_ms else { return begun };
        // A client that looked while the pool's clock was ahead reckons on from there.
        let (ahead, since_ns) = (self.ahead.borrow(), begun_ns.saturating_sub(self.reckoned_ns));
        let first = ahead.partition_point(|(ns, _)| *ns < since_ns).saturating_sub(1);
        let ahead_ms = ahead[first..].iter().map(|(_, ms)| *ms).max().unwrap_or(0);
        let counted_ms = most_ms.max(now.reckoned_ms.saturating_add(ahead_ms));
        Window { most_ms, counted_ms, ..begun }
    }

    /// The earliest time that a client which begins an operation now may judge by.
    fn least_ms(&self) -> u64 {
        let now_ns = (self.look)().ns;
        let mut looks = self.looks.borrow_mut();
        let is_old = |look: Option<&(u64, u64)>| look.is_some_and(|(ns, _)| ns + self.skew_ns <= now_ns);
        while is_old(looks.get(1)) {
            looks.pop_front();
        }
        looks.front().filter(|look| is_old(Some(look))).map_or(0, |(_, ms)| *ms)
    }
}

thread_local! {
    /// How many operations began and ended in histories of this thread.
    static TOLD: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// How many operations began and ended in histories of this thread: an explored run tells from it
/// which steps are in an order that counts.
pub(crate) fn told() -> (u64, u64) {
    TOLD.get()
}

/// Why a history is not one of a cache.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {key}: {what}\n{excerpt}")]
pub struct Violation {
    /// The key, as text.
    pub key: String,
    /// What is wrong.
    pub what: String,
    /// The operations that show it, one a line.
    pub excerpt: String,
}

impl std::fmt::Debug for Violation {
    /// As for users: tests unwrap it, and the excerpt should stand on lines of its own.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

/// What was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Keys.
    pub keys: usize,
    /// Operations.
    pub operations: usize,
    /// Lookups that found something: a test that only misses shows nothing.
    pub hits: usize,
}

impl History {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// One of events with unique stamps of one clock.
    pub fn from_events(events: Vec<Event>) -> Self {
        let last = events.iter().map(|event| event.span.returned.unwrap_or(event.span.invoked)).max();
        Self { events: RefCell::new(events), stamp: Cell::new(last.unwrap_or(0)), clock: None }
    }

    /// A history that knows the pool's clock, where `look` returns the time. Once the clock's
    /// memory is lost, it is unknown how far it had advanced. Once a client has judged by a time,
    /// an operation that begins `skew_ms` later judges by no earlier time.
    /// A client reckons on for at most `reckoned_ms` from a time that the pool's clock had.
    pub fn with_clock(skew_ms: u64, reckoned_ms: u64, look: impl Fn() -> Now + 'static) -> Self {
        let clock = ObservedClock {
            look: Box::new(look),
            skew_ns: skew_ms * 1_000_000,
            looks: RefCell::default(),
            reckoned_ns: reckoned_ms * 1_000_000,
            ahead: RefCell::default(),
        };
        Self { clock: Some(clock), ..Self::default() }
    }

    fn stamp(&self) -> u64 {
        self.stamp.update(|stamp| stamp + 1);
        self.stamp.get()
    }

    /// A client invokes an operation.
    pub fn begin(&self, client: u32, key: &[u8], call: Call) -> Pending {
        TOLD.set((TOLD.get().0 + 1, TOLD.get().1));
        let span = Span { invoked: self.stamp(), returned: None, fenced: None };
        let (mut window, mut begun_ns) = (Window::ANY, 0);
        if let Some(clock) = &self.clock {
            begun_ns = clock.now().ns;
            window.least_ms = clock.least_ms();
        }
        let mut events = self.events.borrow_mut();
        events.push(Event { client, key: key.to_vec(), call, outcome: None, span, window });
        Pending { event: events.len() - 1, begun_ns }
    }

    /// The operation returned.
    pub fn end(&self, operation: Pending, outcome: Outcome) {
        TOLD.set((TOLD.get().0, TOLD.get().1 + 1));
        let stamp = self.stamp();
        let event = &mut self.events.borrow_mut()[operation.event];
        (event.outcome, event.span.returned) = (Some(outcome), Some(stamp));
        if let Some(clock) = &self.clock {
            event.window = clock.until_now(event.window, operation.begun_ns);
        }
    }

    /// The operation has ended, and no client received its outcome: it has happened by now, or
    /// never happens.
    pub fn over(&self, operation: Pending) {
        TOLD.set((TOLD.get().0, TOLD.get().1 + 1));
        let stamp = self.stamp();
        self.events.borrow_mut()[operation.event].span.fenced.get_or_insert(stamp);
    }

    /// A client was shut out, or is known to be dead: what it has under way has happened by now, or
    /// never does.
    pub fn shut_out(&self, client: u32) {
        TOLD.set((TOLD.get().0, TOLD.get().1 + 1));
        let stamp = self.stamp();
        let is_open =
            |event: &&mut Event| event.client == client && event.outcome.is_none() && event.span.fenced.is_none();
        self.events.borrow_mut().iter_mut().filter(is_open).for_each(|event| event.span.fenced = Some(stamp));
    }

    /// How many keys went by themselves: no order explains what clients saw of them without an
    /// eviction.
    pub fn keys_evicted(&self) -> usize {
        let is_evicted = |events: &&Vec<Event>| matches!(verdict(events, Evictions::Never), Verdict::Violation(_));
        self.by_key().values().filter(is_evicted).count()
    }

    /// The events.
    pub fn events(&self) -> Vec<Event> {
        self.events.borrow().clone()
    }

    fn by_key(&self) -> BTreeMap<Vec<u8>, Vec<Event>> {
        let mut keys: BTreeMap<Vec<u8>, Vec<Event>> = BTreeMap::new();
        for event in self.events.borrow().iter() {
            keys.entry(event.key.clone()).or_default().push(event.clone());
        }
        keys
    }

    /// Whether every key's operations are those of a cache, which may evict at any time.
    pub fn check(&self) -> Result<Checked, Violation> {
        self.check_with(Evictions::Anytime)
    }

    /// Whether every key's operations are those of a cache with such evictions. Without evictions
    /// more mistakes show: make the cache larger than what a test puts into it, and check with
    /// [`Evictions::Never`].
    pub fn check_with(&self, evictions: Evictions) -> Result<Checked, Violation> {
        let keys = self.by_key();
        for events in keys.values() {
            check_key(events, evictions)?;
        }
        let operations = keys.values().map(Vec::len).sum();
        let is_hit = |event: &&Event| {
            event.call == Call::Get && matches!(event.outcome, Some(Outcome::Seen(Seen::Present { .. })))
        };
        let hits = self.events.borrow().iter().filter(is_hit).count();
        Ok(Checked { keys: keys.len(), operations, hits })
    }
}

fn check_key(events: &[Event], evictions: Evictions) -> Result<(), Violation> {
    let key = || text(&events[0].key);
    match verdict(events, evictions) {
        Verdict::Linearizable(_) => Ok(()),
        Verdict::Unknown(configurations) => Err(Violation {
            key: key(),
            what: format!("no answer after {configurations} configurations: use fewer operations a key"),
            excerpt: String::new(),
        }),
        Verdict::Violation(_) => {
            let (excerpt, culprit) = shortest(events, evictions);
            let what = format!("no order of the operations explains that {}", one_line(&culprit));
            Err(Violation { key: key(), what, excerpt: described(&excerpt) })
        }
    }
}
