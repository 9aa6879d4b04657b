//! The sequential cache of one key, against which a history is checked.
//!
//! Its state is absent, or a value with its token and its expiry. **Eviction** is a transition to
//! absent that may happen at any time. So a miss is always possible. After it the earlier value is
//! never seen again, and conditional writes and increments find no value. **Expiry** is the same
//! transition at a given time. An operation's window bounds that time. If a value lives for a
//! duration from its write on, its expiry has a window, too.
//!
//! | a value's expiry is | before the operation it |
//! |---|---|
//! | later than the operation's window | is there, unless it was evicted |
//! | within the window | may have expired |
//! | earlier than the window | has expired |
//!
//! | operation, outcome | must be there before | there afterwards |
//! |---|---|---|
//! | get, delete, expire: seen | the seen value and token | the same; nothing if deleted or removed; of an expire with the new expiry |
//! | get, delete, expire: absent | nothing | nothing |
//! | set, stored | what the condition wants, what was seen | the new value, token and expiry |
//! | set, refused | what the condition refuses | the same |
//! | increment: number | the number less the addend; nothing counts as 0 | the number |
//! | append, prepend, set-range: length | a value that becomes so long; nothing counts as empty | the new value |
//!
//! A writer that did not receive its token leaves an unknown token, which the first observer fixes.
//! The check misses only one fault: that two unknown tokens are equal.

use crate::event::{Call, Condition, Event, Expiry, Outcome, Seen, Window};
use crate::linearizability::{Span, Specification, Verdict, check};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// What is there between operations. Values are numbered, so that a state is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Present {
    value: u32,
    /// `None` until a client has seen it.
    token: Option<u64>,
    expiry: ExpiryWindow,
}

/// Between which times a value expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ExpiryWindow {
    least_ms: u64,
    most_ms: u64,
}

impl ExpiryWindow {
    const NEVER: Self = Self { least_ms: u64::MAX, most_ms: u64::MAX };

    /// What an operation that judged in a window wrote over `state`.
    fn written(expiry: Expiry, judged: Window, state: State) -> Self {
        match expiry {
            Expiry::Never => Self::NEVER,
            Expiry::Keep => state.map_or(Self::NEVER, |present| present.expiry),
            Expiry::AtMs(ms) => Self { least_ms: ms, most_ms: ms },
            Expiry::InMs(ms) => Self {
                least_ms: judged.least_ms.saturating_add(ms),
                // One that never is reached is never.
                most_ms: judged.counted_ms.saturating_add(ms),
            },
        }
    }

    /// Whether it may be over for an operation that judged in this window.
    fn may_be_over(self, judged: Window) -> bool {
        self.least_ms <= judged.most_ms && self != Self::NEVER
    }

    /// Whether it is over for certain.
    fn is_over(self, judged: Window) -> bool {
        self.most_ms <= judged.least_ms
    }
}

/// Whether a key may go by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evictions {
    /// At any time: what a cache may do.
    Anytime,
    /// Never, but when it expires: what a cache does that is larger than all that is put into it.
    /// Here two set-if-absent that both succeed are told apart from an eviction between them.
    Never,
}

/// The sequential cache of one key. Every operation leaves at most one state, or one more if the
/// value went before it.
struct OneKey<'a> {
    evictions: Evictions,
    events: &'a [Event],
    values: RefCell<Values>,
    /// Tokens that were told to the clients that wrote under them.
    tokens_told: HashSet<u64>,
}

#[derive(Default)]
struct Values {
    numbers: HashMap<Vec<u8>, u32>,
    bytes: Vec<Vec<u8>>,
}

impl Values {
    fn number(&mut self, bytes: &[u8]) -> u32 {
        if let Some(number) = self.numbers.get(bytes) {
            return *number;
        }
        let number = self.bytes.len() as u32;
        self.numbers.insert(bytes.to_vec(), number);
        self.bytes.push(bytes.to_vec());
        number
    }
}

type State = Option<Present>;

impl<'a> OneKey<'a> {
    fn new(events: &'a [Event], evictions: Evictions) -> Self {
        let told = events.iter().filter_map(|event| match &event.outcome {
            Some(Outcome::Set { stored: true, token, .. }) => *token,
            _ => None,
        });
        Self { evictions, events, values: RefCell::default(), tokens_told: told.collect() }
    }

    fn number(&self, bytes: &[u8]) -> u32 {
        self.values.borrow_mut().number(bytes)
    }

    /// The state as a client knows it that saw `seen`; `None` if that cannot have been seen.
    fn observed(&self, state: State, seen: &Seen) -> Option<State> {
        match (seen, state) {
            (Seen::Nothing, state) => Some(state),
            (Seen::Absent, None) => Some(None),
            (Seen::Absent, Some(_)) | (Seen::Present { .. }, None) => None,
            (Seen::Present { value, token }, Some(present)) => {
                let same_value = value.as_ref().is_none_or(|value| self.number(value) == present.value);
                let token = self.token_observed(present.token, *token)?;
                same_value.then_some(Some(Present { token, ..present }))
            }
        }
    }

    /// The token, once it was seen; `None` if it cannot be that.
    #[allow(clippy::option_option)]
    fn token_observed(&self, token: Option<u64>, seen: Option<u64>) -> Option<Option<u64>> {
        match (token, seen) {
            (token, None) => Some(token),
            (Some(token), Some(seen)) => (token == seen).then_some(Some(token)),
            (None, Some(seen)) => (!self.tokens_told.contains(&seen)).then_some(Some(seen)),
        }
    }

    fn set(&self, state: State, index: usize, next: &mut Vec<State>) {
        let Event { call: Call::Set { value, condition, expiry }, outcome, window, .. } = &self.events[index] else {
            return;
        };
        let (stored, seen, token) = match outcome.as_ref() {
            Some(Outcome::Set { stored, seen, token }) => (*stored, seen, *token),
            // Stored without a trace, or refused, which changes nothing and need not be tried.
            None => (true, &Seen::Nothing, None),
            Some(_) => return,
        };
        let Some(state) = self.observed(state, seen) else { return };
        let before = match (*condition, stored) {
            (Condition::Always, true) => Some(state),
            (Condition::Always, false) => None,
            (Condition::IfAbsent, true) | (Condition::IfPresent, false) => state.is_none().then_some(None),
            (Condition::IfAbsent, false) | (Condition::IfPresent, true) => state.map(Some),
            (Condition::IfToken(wanted), true) => state.and_then(|present| {
                let token = self.token_observed(present.token, Some(wanted))?;
                Some(Some(Present { token, ..present }))
            }),
            (Condition::IfToken(wanted), false) => match state {
                Some(Present { token: Some(token), .. }) if token == wanted => None,
                state => Some(state),
            },
        };
        let Some(before) = before else { return };
        let expiry = ExpiryWindow::written(*expiry, *window, before);
        next.push(if stored { Some(Present { value: self.number(value), token, expiry }) } else { before });
    }

    fn increment(&self, state: State, by: i64, outcome: Option<&Outcome>, next: &mut Vec<State>) {
        let old = state.map_or(Some(0), |present| integer(&self.values.borrow().bytes[present.value as usize]));
        let sum = old.map(|old| old.checked_add(by));
        match (sum, outcome) {
            (None, Some(Outcome::NotANumber)) | (Some(None), Some(Outcome::Overflow)) => next.push(state),
            (Some(Some(sum)), Some(Outcome::Number(number))) if sum == *number => next.push(self.written(state, sum)),
            (Some(Some(sum)), None) => next.push(self.written(state, sum)),
            _ => {}
        }
    }

    fn written(&self, state: State, number: i64) -> State {
        Some(self.rewritten(state, number.to_string().as_bytes()))
    }

    /// A new value with the old one's expiry.
    fn rewritten(&self, state: State, value: &[u8]) -> Present {
        let expiry = state.map_or(ExpiryWindow::NEVER, |present| present.expiry);
        Present { value: self.number(value), token: None, expiry }
    }

    fn rewrite(&self, state: State, outcome: Option<&Outcome>, new: impl Fn(&[u8]) -> Vec<u8>, next: &mut Vec<State>) {
        let length = match outcome {
            Some(Outcome::Length(length)) => Some(*length),
            None => None,
            Some(_) => return,
        };
        let new = match state {
            Some(present) => new(&self.values.borrow().bytes[present.value as usize]),
            None => new(&[]),
        };
        if length.is_none_or(|length| length == new.len()) {
            next.push(Some(self.rewritten(state, &new)));
        }
    }

    /// What operation number `index` makes of `state` if nothing is evicted.
    fn transition(&self, index: usize, state: State, next: &mut Vec<State>) {
        let Event { call, outcome, window, .. } = &self.events[index];
        let outcome = outcome.as_ref();
        let expiring = |state: State, expiry| {
            state.map(|present| Present { expiry: ExpiryWindow::written(expiry, *window, state), ..present })
        };
        match (call, outcome) {
            (Call::Get, None) => {}
            // To a moment that was over, perhaps: then it expires at once.
            (Call::Expire { expiry }, None) => next.extend(state.map(|_| expiring(state, *expiry))),
            (Call::Expire { expiry }, Some(Outcome::Seen(seen))) => {
                next.extend(self.observed(state, seen).map(|state| expiring(state, *expiry)));
            }
            (Call::Get, Some(Outcome::Seen(seen))) => next.extend(self.observed(state, seen)),
            (Call::Delete, Some(Outcome::Seen(seen))) => next.extend(self.observed(state, seen).map(|_| None)),
            (Call::Delete, None) => next.push(None),
            (Call::Expire { .. }, Some(Outcome::Removed)) => next.extend(state.map(|_| None)),
            (Call::Get | Call::Expire { .. } | Call::Delete, Some(_)) => {}
            // Without an outcome the condition still decides whether it was stored; refused, it
            // changed nothing.
            (Call::Set { .. }, _) => self.set(state, index, next),
            (Call::Increment { by }, outcome) => self.increment(state, *by, outcome, next),
            (Call::Append { suffix }, outcome) => self.rewrite(state, outcome, |old| [old, suffix].concat(), next),
            (Call::Prepend { prefix }, outcome) => self.rewrite(state, outcome, |old| [prefix, old].concat(), next),
            (Call::SetRange { offset, bytes }, outcome) => {
                let new = |old: &[u8]| {
                    let mut new = old.to_vec();
                    new.resize(old.len().max(offset + bytes.len()), 0);
                    new[*offset..offset + bytes.len()].copy_from_slice(bytes);
                    new
                };
                self.rewrite(state, outcome, new, next);
            }
        }
    }
}

/// A decimal integer in the form in which increments write it.
fn integer(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == text).then_some(number)
}

impl Specification for OneKey<'_> {
    type State = State;

    fn initial(&self) -> State {
        None
    }

    fn apply(&self, index: usize, state: &State, next: &mut Vec<State>) {
        let Some(present) = state else { return self.transition(index, None, next) };
        let judged = self.events[index].window;
        if !present.expiry.is_over(judged) {
            self.transition(index, *state, next);
        }
        let may_be_evicted = self.evictions == Evictions::Anytime;
        if !may_be_evicted && !present.expiry.may_be_over(judged) {
            return;
        }
        // Or it went just before. Nothing is gained by an absent key where a present one is
        // possible that can still be evicted.
        let kept = next.first().copied();
        self.transition(index, None, next);
        if next.len() > 1 && (may_be_evicted && next.last() == Some(&None) || next.last().copied() == kept) {
            next.pop();
        }
    }

    fn only_observes(&self, index: usize) -> bool {
        // What saw nothing there may have been the eviction; without it more is possible, not less.
        match (&self.events[index].call, &self.events[index].outcome) {
            (Call::Get, _) => true,
            (Call::Delete | Call::Expire { .. }, outcome) => *outcome == Some(Outcome::Seen(Seen::Absent)),
            (Call::Set { .. }, outcome) => matches!(outcome, Some(Outcome::Set { stored: false, .. })),
            (_, outcome) => matches!(outcome, Some(Outcome::NotANumber | Outcome::Overflow)),
        }
    }
}

/// Whether an order explains the events, which are of one key.
pub(crate) fn verdict(events: &[Event], evictions: Evictions) -> Verdict {
    let spans: Vec<Span> = events.iter().map(|event| event.span).collect();
    check(&OneKey::new(events, evictions), &spans)
}
