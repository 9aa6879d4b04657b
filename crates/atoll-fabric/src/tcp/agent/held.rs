//! Answers of a connection that wait for followers of exported regions: see
//! [`watch`](super::watch).
//!
//! Invariant: answers leave in the order of their frames. So an answer behind one that waits waits,
//! too.

use super::Waiter;
use super::watch::Gate;
use std::collections::VecDeque;

/// Gates of one connection at most; no more of its frames are executed meanwhile.
const GATES_MAX: usize = 1024;

/// An answer with its gates, and the answers behind it that have none.
struct Held {
    gates: Vec<Gate>,
    answers: Vec<u64>,
}

/// What a connection holds back.
#[derive(Default)]
pub(super) struct HeldBack {
    held: VecDeque<Held>,
    words: usize,
}

impl HeldBack {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Whether no more frames are to be executed: it has so many bytes, or gates.
    pub(super) fn is_full(&self, bytes_max: usize) -> bool {
        8 * self.words > bytes_max || self.held.len() >= GATES_MAX
    }

    /// Takes the answers of `output` from one word on, which wait for gates or have some before
    /// them.
    #[inline]
    pub(super) fn take(&mut self, output: &mut Vec<u64>, from: usize, gates: &mut Vec<Gate>) {
        if gates.is_empty() && self.held.is_empty() {
            return;
        }
        self.words += output.len() - from;
        match self.held.back_mut().filter(|_| gates.is_empty()) {
            Some(last) => last.answers.extend(output.drain(from..)),
            None => {
                let answers = output.drain(from..).collect();
                self.held.push_back(Held { gates: std::mem::take(gates), answers });
            }
        }
    }

    /// Appends the answers whose gates are open. If any is left, the connection is called once it
    /// is to be released.
    pub(super) fn release(&mut self, connection: &Waiter, output: &mut Vec<u64>) {
        while let Some(held) = self.held.front_mut() {
            if !held.gates.iter().all(|gate| gate.is_open_or_calls(connection)) {
                break;
            }
            self.words -= held.answers.len();
            output.append(&mut held.answers);
            self.held.pop_front();
        }
    }
}
