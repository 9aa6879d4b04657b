//! What clients of a cache did and saw, and whether the cache kept its first promise.
//!
//! Every key is checked by itself against the sequential cache of `sequential.rs`. A history that
//! was given the pool's clock ([`History::with_clock`]) also knows between which times each
//! operation may have judged: then nothing may be served after its expiry, and nothing may expire
//! before.

use crate::excerpt::{described, one_line, shortest, text};
use crate::linearizability::{Span, Verdict};
use crate::sequential::verdict;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

pub use crate::sequential::Evictions;

/// What a client asked of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Look it up, or peek.
    Get,
    /// Set it to a value.
    Set {
        /// The value.
        value: Vec<u8>,
        /// When the set takes place.
        condition: Condition,
        /// When the value expires.
        expiry: Expiry,
    },
    /// Remove it.
    Delete,
    /// Change when it expires.
    Expire {
        /// When.
        expiry: Expiry,
    },
    /// Add to the decimal integer there, an absent one being 0.
    Increment {
        /// The addend.
        by: i64,
    },
    /// Append to the value there, an absent one being empty.
    Append {
        /// What is appended.
        suffix: Vec<u8>,
    },
    /// Put something before the value there, an absent one being empty.
    Prepend {
        /// What comes before.
        prefix: Vec<u8>,
    },
    /// Overwrite from an offset on, padding with zero bytes.
    SetRange {
        /// Bytes before the first overwritten one.
        offset: usize,
        /// What is written; not empty.
        bytes: Vec<u8>,
    },
}

impl Call {
    /// A plain set.
    pub fn set(value: impl Into<Vec<u8>>) -> Self {
        Self::set_if(value, Condition::Always)
    }

    /// A set under a condition.
    pub fn set_if(value: impl Into<Vec<u8>>, condition: Condition) -> Self {
        Self::Set { value: value.into(), condition, expiry: Expiry::Never }
    }

    /// A set under a condition of a value that expires.
    pub fn set_until(value: impl Into<Vec<u8>>, condition: Condition, expiry: Expiry) -> Self {
        Self::Set { value: value.into(), condition, expiry }
    }
}

/// When something expires, on the pool's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// Never.
    Never,
    /// When what is there does; never if nothing is there.
    Keep,
    /// At so many milliseconds since the Unix epoch.
    AtMs(u64),
    /// So many milliseconds after the time that the operation judged by.
    InMs(u64),
}

/// Between which times of the pool's clock an operation judged what has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The earliest.
    pub least_ms: u64,
    /// The latest.
    pub most_ms: u64,
}

impl Window {
    /// Of an operation of which nothing is known.
    pub const ANY: Self = Self { least_ms: 0, most_ms: u64::MAX };
}

/// When a set takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Whatever is there.
    Always,
    /// Only if nothing is there.
    IfAbsent,
    /// Only if something is there.
    IfPresent,
    /// Only if what is there was written under this token.
    IfToken(u64),
}

/// What a client saw of what was there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// It did not look.
    #[default]
    Nothing,
    /// That nothing was there.
    Absent,
    /// That something was there.
    Present {
        /// Its value, if that was looked at.
        value: Option<Vec<u8>>,
        /// Its token, if that was looked at.
        token: Option<u64>,
    },
}

impl Seen {
    /// A value that was there.
    pub fn value(value: impl Into<Vec<u8>>) -> Self {
        Self::Present { value: Some(value.into()), token: None }
    }

    /// That something was there, or not.
    pub fn presence(present: bool) -> Self {
        if present { Self::Present { value: None, token: None } } else { Self::Absent }
    }
}

/// What an operation returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of a get, a delete, an expire: what was there before.
    Seen(Seen),
    /// Of a set, and of what changed nothing because of what it saw.
    Set {
        /// Whether the value was stored.
        stored: bool,
        /// What was there before.
        seen: Seen,
        /// The token of the stored value, if it was told.
        token: Option<u64>,
    },
    /// Of an expire to a moment that was over: something was there and is removed.
    Removed,
    /// Of an increment: the new number.
    Number(i64),
    /// Of an increment: the value there is no number.
    NotANumber,
    /// Of an increment: the number there is too large for the addend.
    Overflow,
    /// Of an append, prepend or set-range: the new length.
    Length(usize),
}

impl Outcome {
    /// A set that was stored, or refused, and saw nothing else.
    pub fn stored(stored: bool) -> Self {
        Self::Set { stored, seen: Seen::Nothing, token: None }
    }

    /// A lookup's value; `None` for a miss.
    pub fn get(value: Option<&[u8]>) -> Self {
        Self::Seen(value.map_or(Seen::Absent, Seen::value))
    }
}

/// One operation of one client on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Who.
    pub client: u32,
    /// On what.
    pub key: Vec<u8>,
    /// What was asked.
    pub call: Call,
    /// What was returned; `None` exactly if `span.returned` is: it never returned, or with an
    /// unknown outcome.
    pub outcome: Option<Outcome>,
    /// When.
    pub span: Span,
    /// When it judged.
    pub window: Window,
}

/// An operation that has not returned.
#[derive(Debug)]
#[must_use = "an operation that is never ended counts as one that may still happen"]
pub struct Pending(usize);

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

/// The pool's clock, as whoever can look past the fabric sees it.
struct ObservedClock {
    /// True time in nanoseconds, and the pool's in milliseconds unless its memory is lost.
    look: Box<dyn Fn() -> (u64, Option<u64>)>,
    /// For how long a client may judge by a time that is over.
    skew_ns: u64,
    /// Looks in order: the last one that is as old as the skew, and all later ones.
    looks: RefCell<VecDeque<(u64, u64)>>,
}

impl ObservedClock {
    /// The pool's time, unless its memory is lost.
    fn now_ms(&self) -> Option<u64> {
        let (now_ns, now_ms) = (self.look)();
        self.looks.borrow_mut().extend(now_ms.map(|now_ms| (now_ns, now_ms)));
        now_ms
    }

    /// The earliest time that a client which begins an operation now may judge by.
    fn least_ms(&self) -> u64 {
        let (now_ns, _) = (self.look)();
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

    /// One that knows the pool's clock: `look` gives true time in nanoseconds, and the pool's in
    /// milliseconds, or `None` once the memory that it is in is lost: then nobody knows how late it
    /// became before. Once a client has judged by a time, an operation that begins `skew_ms` later
    /// judges by no earlier one.
    pub fn with_clock(skew_ms: u64, look: impl Fn() -> (u64, Option<u64>) + 'static) -> Self {
        let clock = ObservedClock { look: Box::new(look), skew_ns: skew_ms * 1_000_000, looks: RefCell::default() };
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
        let mut window = Window::ANY;
        if let Some(clock) = &self.clock {
            clock.now_ms();
            window.least_ms = clock.least_ms();
        }
        let mut events = self.events.borrow_mut();
        events.push(Event { client, key: key.to_vec(), call, outcome: None, span, window });
        Pending(events.len() - 1)
    }

    /// The operation returned.
    pub fn end(&self, operation: Pending, outcome: Outcome) {
        TOLD.set((TOLD.get().0, TOLD.get().1 + 1));
        let stamp = self.stamp();
        let event = &mut self.events.borrow_mut()[operation.0];
        (event.outcome, event.span.returned) = (Some(outcome), Some(stamp));
        if let Some(clock) = &self.clock {
            event.window.most_ms = clock.now_ms().unwrap_or(u64::MAX);
        }
    }

    /// The operation has come to its end, and nobody heard how: it has happened by now, or never
    /// does.
    pub fn over(&self, operation: Pending) {
        TOLD.set((TOLD.get().0, TOLD.get().1 + 1));
        let stamp = self.stamp();
        self.events.borrow_mut()[operation.0].span.fenced.get_or_insert(stamp);
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
