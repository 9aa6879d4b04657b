//! A change around another change: a review sees each verdict, and may replace it and the value.

use atoll_cache::{Change, Old, Verdict, Want};

/// What is done with the verdicts of a change.
pub trait Review: Default + 'static {
    /// Sees the verdict of `change` and returns the verdict that counts.
    fn review(&mut self, change: &impl Change, verdict: Verdict) -> Verdict;

    /// The value to put.
    fn value<'v>(&'v self, change: &'v impl Change) -> &'v [u8] {
        change.value()
    }
}

/// A change whose verdicts are reviewed.
pub struct Reviewed<C, R> {
    /// The change.
    pub change: C,
    /// Sees its verdicts.
    pub review: R,
}

impl<C: Change, R: Review> Change for Reviewed<C, R> {
    type Lasting = Reviewed<C::Lasting, R>;

    fn lasting(&mut self) -> Self::Lasting {
        Reviewed { change: self.change.lasting(), review: std::mem::take(&mut self.review) }
    }

    fn ended(&mut self, lasting: Self::Lasting) {
        self.change.ended(lasting.change);
        self.review = lasting.review;
    }

    fn wants(&self) -> Want {
        self.change.wants()
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        let verdict = self.change.decide(now_ms, old);
        self.review.review(&self.change, verdict)
    }

    fn value(&self) -> &[u8] {
        self.review.value(&self.change)
    }
}
