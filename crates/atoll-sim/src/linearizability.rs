//! Is there an order of the operations that explains what they returned?
//!
//! Wing and Gong's search (JPDC 1993) with Lowe's memory of configurations (Concurrency and
//! Computation 2017). The rules:
//!
//! - An operation may come next if it was invoked before all other remaining operations returned.
//! - A configuration is the set of ordered operations and the state. A configuration that failed is
//!   not tried again.
//! - An operation of a client that was shut out may be left out. It may not follow an operation
//!   that was invoked after the shutout.
//! - An operation that only observes, and fits, is ordered at once: no later position could be
//!   better for the other operations. There is one exception: an operation of a client that was
//!   shut out could no longer follow it.
//!
//! The search is independent of caches: see [`Specification`], and [`history`](crate::history) for
//! the cache's.

use std::collections::HashSet;
use std::hash::Hash;

/// When an operation was in progress, in unique stamps: of two events the earlier one has the lower
/// stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When it was invoked.
    pub invoked: u64,
    /// When it returned; `None` if it never did, so that it may have happened at any time since, or
    /// never.
    pub returned: Option<u64>,
    /// When its client was shut out or it came to its end unheard, if it never returned: it
    /// happened before that, or never.
    pub fenced: Option<u64>,
}

/// What operations do, one at a time.
pub trait Specification {
    /// What there is between operations; small, because the search keeps many.
    type State: Clone + Eq + Hash;

    /// The state before the first operation.
    fn initial(&self) -> Self::State;

    /// Appends to `next` every state in which operation number `index`, with the outcome that it
    /// had, may leave `state`; none if it cannot have had that outcome. A state from which strictly
    /// fewer outcomes are possible than from another one of them may be left out.
    fn apply(&self, index: usize, state: &Self::State, next: &mut Vec<Self::State>);

    /// Whether operation number `index`, with the outcome that it had, can be left out of any order
    /// without making it worse for the others. (A write of what is there already cannot: it may be
    /// needed behind another write.)
    fn only_observes(&self, index: usize) -> bool;
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The operations in an order that explains them.
    Linearizable(Vec<usize>),
    /// There is none; this is the longest beginning that the search found.
    Violation(Vec<usize>),
    /// The search was given up after this many configurations.
    Unknown(usize),
}

/// The configurations that a search looks at before it gives up.
pub const CONFIGURATIONS_MAX: usize = 4_000_000;

struct Frame<S> {
    /// The operation that led here; none leads to the first frame.
    operation: Option<usize>,
    /// What may come next, the best last.
    candidates: Vec<(usize, S)>,
}

struct Search<'a, S: Specification> {
    specification: &'a S,
    spans: &'a [Span],
    /// Numbers of the operations, by invocation.
    by_invocation: Vec<usize>,
    /// A bit for each that has been ordered.
    ordered: Box<[u64]>,
    /// Whether the client of one was shut out.
    has_fenced: bool,
    next: Vec<S::State>,
}

impl<S: Specification> Search<'_, S> {
    fn is_ordered(&self, operation: usize) -> bool {
        self.ordered[operation / 64] >> (operation % 64) & 1 == 1
    }

    fn flip(&mut self, operation: usize) {
        self.ordered[operation / 64] ^= 1 << (operation % 64);
    }

    /// When the last of those that have been ordered was invoked. What was shut out before then can
    /// come no more.
    fn latest_invocation(&self) -> u64 {
        let latest = self.by_invocation.iter().rev().find(|operation| self.is_ordered(**operation));
        latest.map_or(0, |operation| self.spans[*operation].invoked)
    }

    /// Whether an operation that may still come next can come no more behind one that was invoked
    /// at `invoked`.
    fn is_too_late_for_one(&self, invoked: u64, latest: u64) -> bool {
        let comes_before = |operation: &usize| {
            let fenced = self.spans[*operation].fenced;
            !self.is_ordered(*operation) && fenced.is_some_and(|fenced| latest <= fenced && fenced < invoked)
        };
        self.has_fenced && self.by_invocation.iter().any(comes_before)
    }

    /// The operations that may come next in `state`, with the states that they leave.
    fn candidates(&mut self, first: &mut usize, state: &S::State) -> Vec<(usize, S::State)> {
        while self.by_invocation.get(*first).is_some_and(|operation| self.is_ordered(*operation)) {
            *first += 1;
        }
        let mut candidates = Vec::new();
        let latest = if self.has_fenced { self.latest_invocation() } else { 0 };
        let mut returned_min = u64::MAX;
        for place in *first..self.by_invocation.len() {
            let operation = self.by_invocation[place];
            let span = self.spans[operation];
            if span.invoked > returned_min {
                break;
            }
            if self.is_ordered(operation) || span.fenced.is_some_and(|fenced| fenced < latest) {
                continue;
            }
            returned_min = returned_min.min(span.returned.unwrap_or(u64::MAX));
            self.next.clear();
            self.specification.apply(operation, state, &mut self.next);
            let fits_unchanged = matches!(&self.next[..], [only] if only == state);
            let only_observes = span.returned.is_some() && self.specification.only_observes(operation);
            if fits_unchanged && only_observes && !self.is_too_late_for_one(span.invoked, latest) {
                return vec![(operation, state.clone())];
            }
            candidates.extend(self.next.drain(..).map(|next| (operation, next)));
        }
        // What returned first most likely came first.
        candidates.sort_by_key(|(operation, _)| std::cmp::Reverse(self.spans[*operation].returned.unwrap_or(u64::MAX)));
        candidates
    }
}

/// Searches for an order. Operations that never returned may be left out of it.
pub fn check<S: Specification>(specification: &S, spans: &[Span]) -> Verdict {
    let mut by_invocation: Vec<usize> = (0..spans.len()).collect();
    by_invocation.sort_by_key(|operation| spans[*operation].invoked);
    let ordered = vec![0; spans.len().div_ceil(64)].into_boxed_slice();
    let has_fenced = spans.iter().any(|span| span.fenced.is_some());
    let mut search = Search { specification, spans, by_invocation, ordered, has_fenced, next: Vec::new() };
    let mut left = spans.iter().filter(|span| span.returned.is_some()).count();
    if left == 0 {
        return Verdict::Linearizable(Vec::new());
    }
    let mut tried: HashSet<(Box<[u64]>, S::State)> = HashSet::new();
    let mut longest: Vec<usize> = Vec::new();
    let candidates = search.candidates(&mut 0, &specification.initial());
    let mut frames = vec![Frame { operation: None, candidates }];
    while let Some(frame) = frames.last_mut() {
        let Some((operation, state)) = frame.candidates.pop() else {
            if let Some(operation) = frame.operation {
                search.flip(operation);
                left += usize::from(spans[operation].returned.is_some());
            }
            frames.pop();
            continue;
        };
        search.flip(operation);
        if !tried.insert((search.ordered.clone(), state.clone())) {
            search.flip(operation);
            continue;
        }
        if tried.len() > CONFIGURATIONS_MAX {
            return Verdict::Unknown(tried.len());
        }
        left -= usize::from(spans[operation].returned.is_some());
        let order = |frames: &[Frame<S::State>]| -> Vec<usize> {
            frames.iter().filter_map(|frame| frame.operation).chain([operation]).collect()
        };
        if left == 0 {
            return Verdict::Linearizable(order(&frames));
        }
        if frames.len() > longest.len() {
            longest = order(&frames);
        }
        let candidates = search.candidates(&mut 0, &state);
        frames.push(Frame { operation: Some(operation), candidates });
    }
    Verdict::Violation(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A register: `Ok(v)` writes `v`, `Err(v)` read it.
    struct Register(Vec<Result<u32, u32>>);

    impl Specification for Register {
        type State = u32;

        fn initial(&self) -> u32 {
            0
        }

        fn apply(&self, index: usize, state: &u32, next: &mut Vec<u32>) {
            match self.0[index] {
                Ok(written) => next.push(written),
                Err(read) if read == *state => next.push(read),
                Err(_) => {}
            }
        }

        fn only_observes(&self, index: usize) -> bool {
            self.0[index].is_err()
        }
    }

    fn verdict(operations: &[(u64, Option<u64>, Result<u32, u32>)]) -> Verdict {
        verdict_fenced(operations, None)
    }

    /// The same, where all operations that never returned were shut out then.
    fn verdict_fenced(operations: &[(u64, Option<u64>, Result<u32, u32>)], fenced: Option<u64>) -> Verdict {
        let span = |(invoked, returned, _): &(u64, Option<u64>, _)| {
            let fenced = fenced.filter(|_| returned.is_none());
            Span { invoked: *invoked, returned: *returned, fenced }
        };
        let spans: Vec<Span> = operations.iter().map(span).collect();
        check(&Register(operations.iter().map(|(_, _, operation)| *operation).collect()), &spans)
    }

    #[test]
    fn overlapping_operations_may_take_effect_in_either_order_and_others_may_not() {
        assert_eq!(verdict(&[(1, Some(4), Ok(7)), (2, Some(3), Err(0))]), Verdict::Linearizable(vec![1, 0]));
        assert_eq!(verdict(&[(1, Some(4), Ok(7)), (2, Some(3), Err(7))]), Verdict::Linearizable(vec![0, 1]));
        assert!(matches!(verdict(&[(1, Some(2), Ok(7)), (3, Some(4), Err(0))]), Verdict::Violation(_)));
    }

    #[test]
    fn a_write_of_what_is_there_may_be_needed_behind_another_write() {
        let operations = [(1, Some(2), Ok(7)), (3, Some(6), Ok(7)), (4, Some(5), Ok(8)), (7, Some(8), Err(7))];
        assert!(matches!(verdict(&operations), Verdict::Linearizable(_)));
    }

    #[test]
    fn an_operation_that_never_returned_may_have_happened_or_not_but_not_undone() {
        assert!(matches!(verdict(&[(1, None, Ok(7)), (2, Some(3), Err(0))]), Verdict::Linearizable(_)));
        let seen = [(1, None, Ok(7)), (2, Some(3), Err(0)), (4, Some(5), Err(7)), (6, Some(7), Err(7))];
        assert!(matches!(verdict(&seen), Verdict::Linearizable(_)));
        let undone = [(1, None, Ok(7)), (2, Some(3), Err(7)), (4, Some(5), Err(0))];
        assert!(matches!(verdict(&undone), Verdict::Violation(_)));
    }

    #[test]
    fn an_operation_of_a_client_that_was_shut_out_happened_before_or_never() {
        // Seen by a read that began after the fence, and not by one that came between: the write
        // would have had to come after the fence.
        let late = [(1, None, Ok(7)), (5, Some(6), Err(0)), (7, Some(8), Err(7))];
        assert!(matches!(verdict(&late), Verdict::Linearizable(_)));
        assert!(matches!(verdict_fenced(&late, Some(2)), Verdict::Violation(_)));
        assert!(matches!(verdict_fenced(&late, Some(6)), Verdict::Linearizable(_)));
        let before = [(1, None, Ok(7)), (3, Some(4), Err(7)), (5, Some(6), Err(7))];
        assert!(matches!(verdict_fenced(&before, Some(2)), Verdict::Linearizable(_)));
        let never = [(1, None, Ok(7)), (3, Some(4), Err(0)), (5, Some(6), Err(0))];
        assert!(matches!(verdict_fenced(&never, Some(2)), Verdict::Linearizable(_)));
        // A read that fits at once fits later, too, where it leaves room for the write.
        let later = [(1, None, Ok(7)), (3, Some(8), Ok(0)), (4, Some(7), Err(7)), (5, Some(6), Err(0))];
        assert_eq!(verdict_fenced(&later, Some(2)), Verdict::Linearizable(vec![0, 2, 1, 3]));
    }
}
