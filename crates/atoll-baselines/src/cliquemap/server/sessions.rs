//! What the server remembers of each client, so that a message that arrives twice, or late, has no
//! effect twice.
//!
//! | a change comes with | then |
//! |---|---|
//! | an earlier epoch of the place, or another mailbox than its epoch's | it is dropped |
//! | a sequence number below the last one done | it is dropped: the client has its answer, or has given it up |
//! | the last one done | the same answer is sent again |
//! | a higher one | its parts are gathered; once all are there it is done |
//!
//! A client has one change under way at a time. So the server remembers one answer and one body for
//! each place of the registry.

use super::super::wire::{Answer, Change, Head, PART_BYTES};
use atoll_fabric::Mailbox;
use std::cmp::Ordering;

/// The state of the client at a place.
#[derive(Debug, Default)]
pub(super) struct Session {
    epoch: u32,
    mailbox: Option<Mailbox>,
    /// The last change that was done, 0 for none, and the answer to it.
    done: u64,
    answer: Option<Answer>,
    /// The last log of accesses that was noted.
    noted: u64,
    gathered: Gathered,
}

/// The parts of a change that have arrived.
#[derive(Debug, Default)]
struct Gathered {
    sequence: u64,
    body: Vec<u8>,
    /// By part, whether it has arrived.
    come: Vec<bool>,
}

/// How the server handles a change that arrived.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing.
    Nothing,
    /// To send this answer again.
    Again(Answer),
    /// To do it: all of key and value have arrived.
    Now(Vec<u8>),
}

impl Session {
    /// Whether a message is from the place's present client, which may just have joined.
    pub(super) fn admits(&mut self, from: Mailbox, head: &Head) -> bool {
        match head.client.epoch.cmp(&self.epoch) {
            Ordering::Less => false,
            Ordering::Equal => self.mailbox == Some(from),
            Ordering::Greater => {
                *self = Self { epoch: head.client.epoch, mailbox: Some(from), ..Self::default() };
                true
            }
        }
    }

    /// Handles a part of a change.
    pub(super) fn change(&mut self, sequence: u64, change: &Change, first: usize, part: &[u8]) -> Due {
        if sequence <= self.done {
            // The answer is sent again once, not for every part.
            let again = self.answer.filter(|_| sequence == self.done && first == 0);
            return again.map_or(Due::Nothing, Due::Again);
        }
        if change.parts() == 1 {
            return Due::Now(part.to_vec());
        }
        let gathered = &mut self.gathered;
        if sequence < gathered.sequence {
            return Due::Nothing;
        }
        if sequence > gathered.sequence {
            let (body, come) = (vec![0; change.body_bytes()], vec![false; change.parts()]);
            *gathered = Gathered { sequence, body, come };
        }
        // If the parts do not fit each other, the fault is the client's.
        let Some(place) = gathered.body.get_mut(first..first + part.len()) else { return Due::Nothing };
        let Some(come) = gathered.come.get_mut(first / PART_BYTES) else { return Due::Nothing };
        place.copy_from_slice(part);
        *come = true;
        let is_whole = gathered.come.iter().all(|come| *come) && gathered.body.len() == change.body_bytes();
        if is_whole { Due::Now(std::mem::take(gathered).body) } else { Due::Nothing }
    }

    /// A change is done.
    pub(super) fn answered(&mut self, sequence: u64, answer: Answer) {
        (self.done, self.answer) = (sequence, Some(answer));
    }

    /// Handles a log of accesses; returns whether it is new.
    pub(super) fn note(&mut self, sequence: u64) -> bool {
        let is_new = sequence > self.noted;
        self.noted = self.noted.max(sequence);
        is_new
    }
}
