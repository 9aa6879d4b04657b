//! Which barrier stands between two verbs.
//!
//! A verb is one plain access for each of its words, or one atomic instruction. Verbs execute in
//! program order, but a processor may perform their accesses in another order. The barriers keep
//! what the contract ([`Endpoint`](crate::Endpoint)) promises. The rows are the next verb, the
//! columns what the batch has done before it:
//!
//! | next | READ | WRITE | atomic |
//! |---|---|---|---|
//! | READ | | full | full * |
//! | fenced READ | acquire | full | full * |
//! | WRITE, fenced or not | release | release | release |
//! | atomic | | full * | |
//! | fenced atomic | acquire | full * | full * |
//! | completion of the batch | acquire | full | full * |
//! | end of an unawaited batch | acquire | acquire | acquire |
//!
//! | barrier | orders | x86-64 | ARMv8 |
//! |---|---|---|---|
//! | acquire | earlier loads before later loads and stores | for the compiler only | `dmb ishld` |
//! | release | earlier loads and stores before later stores | for the compiler only | `dmb ish` |
//! | full | everything | a locked `or`, or `mfence` | `dmb ish` |
//! | full * | everything | for the compiler only | `dmb ish` |
//!
//! Atomics are sequentially consistent instructions. On x86-64 each is a locked instruction, which
//! is a full barrier whether a swap succeeds or fails; hence the stars. On ARMv8 an atomic is
//! `casal`, `ldaddal`, or a loop of `ldaxr` and `stlxr`, and it is no full barrier:
//!
//! - A later plain load may be performed before the `stlxr` of the atomic is visible.
//! - A swap that fails stores nothing. It is a load, and an earlier plain store may become visible
//!   after it.
//! - An earlier plain load may be performed after the load of a later atomic.
//!
//! Both architectures are multi-copy atomic: a store that one other processor sees, all see. So a
//! full barrier behind the stores of a batch is all that its completion needs.
//!
//! An unawaited batch needs no barrier for its stores: only [`flush`](crate::Endpoint::flush) makes
//! them visible, and has a full barrier of its own.

use std::sync::atomic::{Ordering, compiler_fence, fence};

/// Whether every atomic instruction is a full barrier.
pub(super) const LOCKED_ATOMICS: bool = cfg!(any(target_arch = "x86_64", target_arch = "x86"));

/// What a verb does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// Plain loads.
    Read,
    /// Plain stores.
    Write,
    /// One read-modify-write instruction, of which a swap that fails only loads.
    Atomic,
}

/// A barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barrier {
    /// None.
    None,
    /// The compiler keeps all accesses on their sides; the processor does so by itself.
    Compiler,
    /// Earlier loads are before later loads and stores.
    Acquire,
    /// Earlier loads and stores are before later stores.
    Release,
    /// Everything earlier is before everything later.
    Full,
}

impl Barrier {
    /// Stands where it is called.
    #[inline(always)]
    pub(super) fn stand(self) {
        match self {
            Self::None => {}
            Self::Compiler => compiler_fence(Ordering::SeqCst),
            Self::Acquire => fence(Ordering::Acquire),
            Self::Release => fence(Ordering::Release),
            Self::Full => fence(Ordering::SeqCst),
        }
    }
}

/// What one batch has done since its last full barrier. `LOCKED` says whether every atomic
/// instruction is a full barrier, which is [`LOCKED_ATOMICS`] but in tests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Order<const LOCKED: bool> {
    /// Whether there are plain stores.
    stored: bool,
    /// Whether there are atomics that are no full barriers.
    swapped: bool,
}

impl<const LOCKED: bool> Order<LOCKED> {
    /// The barrier that stands before the next verb.
    #[inline(always)]
    pub(super) fn before(&mut self, next: Access, fenced: bool) -> Barrier {
        let barrier = match next {
            Access::Read if self.stored || self.swapped => Barrier::Full,
            Access::Write => Barrier::Release,
            Access::Atomic if LOCKED => Barrier::Compiler,
            Access::Atomic if self.stored || fenced && self.swapped => Barrier::Full,
            Access::Read | Access::Atomic if fenced => Barrier::Acquire,
            Access::Read | Access::Atomic => Barrier::None,
        };
        if barrier == Barrier::Full {
            *self = Self::default();
        }
        match next {
            Access::Read => {}
            Access::Write => self.stored = true,
            Access::Atomic if LOCKED => *self = Self::default(),
            Access::Atomic => self.swapped = true,
        }
        barrier
    }

    /// The barrier that stands behind an atomic, whatever comes next.
    #[inline(always)]
    pub(super) fn behind_atomic() -> Barrier {
        if LOCKED { Barrier::Compiler } else { Barrier::None }
    }

    /// The barrier that stands at the end of the batch; `settled` says whether its effects must be
    /// visible to every verb that is posted later.
    #[inline(always)]
    pub(super) fn at_end(self, settled: bool) -> Barrier {
        if settled && (self.stored || self.swapped) { Barrier::Full } else { Barrier::Acquire }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Effect {
        Load,
        Store,
    }

    fn effects(access: Access) -> &'static [Effect] {
        match access {
            Access::Read => &[Effect::Load],
            Access::Write => &[Effect::Store],
            Access::Atomic => &[Effect::Load, Effect::Store],
        }
    }

    /// Whether a barrier keeps an earlier effect before a later one.
    fn keeps(barrier: Barrier, earlier: Effect, later: Effect) -> bool {
        match barrier {
            Barrier::None | Barrier::Compiler => false,
            Barrier::Acquire => earlier == Effect::Load,
            Barrier::Release => later == Effect::Store,
            Barrier::Full => true,
        }
    }

    /// Whether the contract has the two verbs in order.
    fn is_promised(earlier: Access, later: Access, fenced: bool) -> bool {
        fenced || earlier == Access::Write || earlier == Access::Atomic && later == Access::Read
    }

    /// All batches of this many verbs, each with its fence flag.
    fn batches(verbs: u32) -> impl Iterator<Item = Vec<(Access, bool)>> {
        const KINDS: [(Access, bool); 6] = [
            (Access::Read, false),
            (Access::Write, false),
            (Access::Atomic, false),
            (Access::Read, true),
            (Access::Write, true),
            (Access::Atomic, true),
        ];
        (0..6_usize.pow(verbs)).map(move |code| (0..verbs).map(|verb| KINDS[code / 6_usize.pow(verb) % 6]).collect())
    }

    /// Checks a batch on a processor that keeps `by_itself` two effects of two verbs in order.
    fn check<const LOCKED: bool>(batch: &[(Access, bool)], by_itself: fn(Effect, Effect) -> bool) {
        let mut order = Order::<LOCKED>::default();
        let before: Vec<Barrier> = batch.iter().map(|(access, fenced)| order.before(*access, *fenced)).collect();
        // A locked atomic between two effects, or one of whose effects they are, keeps them in
        // order.
        let locked = |first: usize, last: usize| {
            LOCKED && batch[first..last.min(batch.len() - 1) + 1].iter().any(|(access, _)| *access == Access::Atomic)
        };
        for (later, (access, fenced)) in batch.iter().enumerate() {
            for (earlier, (before_it, _)) in batch[..later].iter().enumerate() {
                if !is_promised(*before_it, *access, *fenced) {
                    continue;
                }
                for one in effects(*before_it) {
                    for other in effects(*access) {
                        let kept = before[earlier + 1..=later].iter().any(|barrier| keeps(*barrier, *one, *other));
                        assert!(
                            kept || by_itself(*one, *other) || locked(earlier, later),
                            "{batch:?}: {one:?} of verb {earlier} may come after {other:?} of verb {later}: {before:?}"
                        );
                    }
                }
            }
        }
        for (verb, (access, _)) in batch.iter().enumerate() {
            let is_settled = before[verb + 1..].contains(&Barrier::Full) || order.at_end(true) == Barrier::Full;
            assert!(
                !effects(*access).contains(&Effect::Store) || is_settled || locked(verb, batch.len()),
                "{batch:?}: verb {verb} may not be visible when the batch has completed"
            );
        }
    }

    #[test]
    fn barriers_keep_the_contract_on_a_processor_that_orders_nothing_by_itself() {
        (1..=4).flat_map(batches).for_each(|batch| check::<false>(&batch, |_, _| false));
    }

    #[test]
    fn barriers_keep_the_contract_on_a_processor_that_delays_stores_and_locks_for_atomics() {
        let by_itself = |earlier, later| (earlier, later) != (Effect::Store, Effect::Load);
        (1..=4).flat_map(batches).for_each(|batch| check::<true>(&batch, by_itself));
    }

    /// There, a full barrier costs as much as the rest of a batch.
    #[test]
    fn with_locked_atomics_only_stores_that_a_load_or_the_end_follows_cost_a_full_barrier() {
        for batch in (1..=4).flat_map(batches) {
            let mut order = Order::<true>::default();
            let mut stored = false;
            for (access, fenced) in &batch {
                let is_full = order.before(*access, *fenced) == Barrier::Full;
                assert_eq!(is_full, stored && *access == Access::Read, "{batch:?}");
                stored = *access == Access::Write;
            }
            assert_eq!(order.at_end(true) == Barrier::Full, stored, "{batch:?}");
        }
    }
}
