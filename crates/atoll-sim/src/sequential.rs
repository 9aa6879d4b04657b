//! The sequential cache of one key, against which a history is held.
//!
//! Its state is absent, or a value with its token. **Eviction** is a transition to absent that may happen at any time, so a miss
//! is always possible, and after it the value is gone: nothing that was there before is ever seen again, and conditional writes and
//! increments find it gone. An expiry is an eviction too.
//!
//! | operation, outcome | must be there before | there afterwards |
//! |---|---|---|
//! | get, delete, expire: seen | the seen value and token | the same; nothing if deleted or removed |
//! | get, delete, expire: absent | nothing | nothing |
//! | set, stored | what the condition wants, what was seen | the new value and token |
//! | set, refused | what the condition refuses | the same |
//! | increment: number | the number less the addend; nothing counts as 0 | the number |
//! | append, prepend, set-range: length | a value that becomes so long; nothing counts as empty | the new value |
//!
//! A writer that was not told its token leaves an unknown one, which the first observer fixes; that two unknown ones are equal is the one
//! thing that goes unnoticed.

use crate::history::{Call, Condition, Event, Outcome, Seen};
use crate::linearizability::{Span, Specification, Verdict, check};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// What is there between operations. Values are numbered, so that a state is small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Present {
    value: u32,
    /// `None` until somebody has seen it.
    token: Option<u64>,
}

/// Whether a key may go by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evictions {
    /// At any time: what a cache may do.
    Anytime,
    /// Never: what a cache does that is larger than all that is put into it, as long as nothing expires. Here two set-if-absent that
    /// both succeed are told apart from an eviction between them.
    Never,
}

/// The sequential cache of one key. Every operation leaves at most one state, or one more if there was an eviction before it.
struct OneKey<'a> {
    evictions: Evictions,
    events: &'a [Event],
    values: RefCell<Values>,
    /// Tokens that were told to those who wrote under them.
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

    /// The state as whoever saw `seen` in it knows it; `None` if that cannot have been seen.
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

    fn set(&self, state: State, value: &[u8], condition: Condition, outcome: Option<&Outcome>, next: &mut Vec<State>) {
        let (stored, seen, token) = match outcome {
            Some(Outcome::Set { stored, seen, token }) => (*stored, seen, *token),
            // Stored without a trace, or refused, which changes nothing and need not be tried.
            None => (true, &Seen::Nothing, None),
            Some(_) => return,
        };
        let Some(state) = self.observed(state, seen) else { return };
        let before = match (condition, stored) {
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
        next.push(if stored { Some(Present { value: self.number(value), token }) } else { before });
    }

    fn increment(&self, state: State, by: i64, outcome: Option<&Outcome>, next: &mut Vec<State>) {
        let old = state.map_or(Some(0), |present| integer(&self.values.borrow().bytes[present.value as usize]));
        let sum = old.map(|old| old.checked_add(by));
        match (sum, outcome) {
            (None, Some(Outcome::NotANumber)) | (Some(None), Some(Outcome::Overflow)) => next.push(state),
            (Some(Some(sum)), Some(Outcome::Number(number))) if sum == *number => next.push(self.written(sum)),
            (Some(Some(sum)), None) => next.push(self.written(sum)),
            _ => {}
        }
    }

    fn written(&self, number: i64) -> State {
        Some(Present { value: self.number(number.to_string().as_bytes()), token: None })
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
            next.push(Some(Present { value: self.number(&new), token: None }));
        }
    }

    /// What operation number `index` makes of `state` if nothing is evicted.
    fn transition(&self, index: usize, state: State, next: &mut Vec<State>) {
        let Event { call, outcome, .. } = &self.events[index];
        let outcome = outcome.as_ref();
        match (call, outcome) {
            (Call::Get, None) | (Call::Expire { expiry_ms: None }, None) => {}
            // To a moment that was over, perhaps: then it was removed.
            (Call::Expire { expiry_ms: Some(_) }, None) => next.extend(state.map(|_| None)),
            (Call::Get | Call::Expire { .. }, Some(Outcome::Seen(seen))) => next.extend(self.observed(state, seen)),
            (Call::Delete, Some(Outcome::Seen(seen))) => next.extend(self.observed(state, seen).map(|_| None)),
            (Call::Delete, None) => next.push(None),
            (Call::Expire { .. }, Some(Outcome::Removed)) => next.extend(state.map(|_| None)),
            (Call::Get | Call::Expire { .. } | Call::Delete, Some(_)) => {}
            (Call::Set { value, condition, .. }, outcome) => {
                // Without an outcome the condition still decides whether it was stored; refused, it changed nothing.
                self.set(state, value, *condition, outcome, next);
            }
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
        self.transition(index, *state, next);
        if self.evictions == Evictions::Never || state.is_none() {
            return;
        }
        // Or it was evicted just before. Nothing is gained by an absent key where a present one is possible: that can still be evicted.
        let kept = next.first().copied();
        self.transition(index, None, next);
        if next.len() > 1 && (next.last() == Some(&None) || next.last().copied() == kept) {
            next.pop();
        }
    }

    fn only_observes(&self, index: usize) -> bool {
        // What saw nothing there may have been the eviction; without it more is possible, not less.
        match (&self.events[index].call, &self.events[index].outcome) {
            (Call::Get | Call::Expire { .. }, outcome) => *outcome != Some(Outcome::Removed),
            (Call::Delete, outcome) => *outcome == Some(Outcome::Seen(Seen::Absent)),
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
