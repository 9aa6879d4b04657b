//! What an endpoint has in flight, and where its results go.
//!
//! A slot is one batch or one call. Buffers of READs belong to the slot until all frames of the
//! batch are answered, so that a future can be dropped at any time. A slot keeps its memory when it
//! is used again: a verb allocates nothing in steady state.
//!
//! | a slot | from | until |
//! |---|---|---|
//! | awaited | its post | its future takes the outcome |
//! | orphan | its future is dropped | its last frame is answered |
//! | unawaited | its post | the same; an error waits for the next flush |
//!
//! The last answer of an awaited slot wakes the task whose future waits for it. Futures that wait
//! for anything else are woken whenever something has arrived ([`Flights::note`]).

use super::call::Answer;
use crate::batch::BATCH_VERBS_MAX;
use crate::{Buffer, VerbError};
use arrayvec::ArrayVec;
use std::task::Waker;

/// The number of a slot.
pub(super) type SlotId = u32;

/// Where the result of a verb goes.
#[derive(Debug)]
pub(super) enum Place {
    /// A WRITE has no result.
    Nothing,
    /// The word that was found.
    Word(u64),
    /// The buffer of a READ.
    Bytes(Buffer),
}

/// The results of a batch, by the numbers of its verbs.
pub(super) type Places = ArrayVec<Place, BATCH_VERBS_MAX>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Owner {
    #[default]
    Free,
    Awaited,
    Orphan,
    Unawaited,
}

#[derive(Debug, Default)]
struct Slot {
    owner: Owner,
    /// Frames that are not answered.
    left: u32,
    /// Frames of which nothing else is known than that they took effect.
    good: u32,
    error: Option<VerbError>,
    places: Places,
    answer: Option<Answer>,
    /// Of the task that waits for the last frame.
    waker: Option<Waker>,
}

/// Everything in flight.
#[derive(Debug, Default)]
pub(super) struct Flights {
    slots: Vec<Slot>,
    free: Vec<SlotId>,
    unawaited: usize,
    unawaited_error: Option<VerbError>,
    /// Of tasks that wait for something else than a slot.
    others: Vec<Waker>,
}

impl Flights {
    /// A slot for a batch or a call, which is to have frames.
    pub(super) fn begin(&mut self, is_unawaited: bool) -> SlotId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as SlotId - 1
        });
        let slot = &mut self.slots[id as usize];
        assert!(slot.owner == Owner::Free && slot.left == 0, "a slot is used once at a time");
        slot.owner = if is_unawaited { Owner::Unawaited } else { Owner::Awaited };
        self.unawaited += usize::from(is_unawaited);
        id
    }

    /// Where the results of a batch go.
    #[inline]
    pub(super) fn places(&mut self, id: SlotId) -> &mut Places {
        &mut self.slots[id as usize].places
    }

    /// One more frame of it is to be answered.
    #[inline]
    pub(super) fn add_frame(&mut self, id: SlotId) {
        self.slots[id as usize].left += 1;
    }

    /// Slots in use.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// A frame was answered by what the verbs of `mask` found.
    #[inline]
    pub(super) fn found(&mut self, id: SlotId, mask: u32, mut words: &[u64]) -> Option<()> {
        let slot = &mut self.slots[id as usize];
        for (index, place) in slot.places.iter_mut().enumerate() {
            if mask & 1 << index == 0 {
                continue;
            }
            match place {
                Place::Nothing => {}
                Place::Word(word) => {
                    let (first, rest) = words.split_first()?;
                    *word = *first;
                    words = rest;
                }
                Place::Bytes(buffer) => {
                    let into = buffer.words_mut();
                    let (first, rest) = words.split_at_checked(into.len())?;
                    into.copy_from_slice(first);
                    words = rest;
                }
            }
        }
        slot.good += 1;
        self.end_frame(id);
        words.is_empty().then_some(())
    }

    /// A call was answered.
    pub(super) fn answered(&mut self, id: SlotId, answer: Answer) {
        let slot = &mut self.slots[id as usize];
        slot.answer = Some(answer);
        slot.good += 1;
        self.end_frame(id);
    }

    /// A frame failed.
    pub(super) fn failed(&mut self, id: SlotId, error: VerbError) {
        let slot = &mut self.slots[id as usize];
        // The worst counts: a frame that may take effect later, then the first.
        let is_worse = slot.error.is_none() || error == VerbError::OutcomeUnknown;
        if is_worse {
            slot.error = Some(error);
        }
        self.end_frame(id);
    }

    fn end_frame(&mut self, id: SlotId) {
        let slot = &mut self.slots[id as usize];
        slot.left -= 1;
        if slot.left > 0 {
            return;
        }
        // A part of the batch took effect: its client must not go on as if none had.
        if slot.good > 0 && slot.error.as_ref().is_some_and(VerbError::took_no_effect) {
            slot.error = Some(VerbError::OutcomeUnknown);
        }
        match slot.owner {
            Owner::Unawaited => {
                self.unawaited -= 1;
                let error = slot.error.take();
                self.unawaited_error = self.unawaited_error.take().or(error);
                self.release(id);
            }
            Owner::Orphan => self.release(id),
            Owner::Awaited => slot.waker.take().into_iter().for_each(Waker::wake),
            Owner::Free => {}
        }
    }

    /// The task that is to be woken once all frames of a slot are answered.
    #[inline]
    pub(super) fn wait(&mut self, id: SlotId, waker: &Waker) {
        let noted = &mut self.slots[id as usize].waker;
        if !noted.as_ref().is_some_and(|noted| noted.will_wake(waker)) {
            *noted = Some(waker.clone());
        }
    }

    /// A task that waits for something else than a slot.
    #[inline]
    pub(super) fn note(&mut self, waker: &Waker) {
        if !self.others.iter().any(|noted| noted.will_wake(waker)) {
            self.others.push(waker.clone());
        }
    }

    /// Something has arrived.
    #[inline]
    pub(super) fn wake_others(&mut self) {
        self.others.drain(..).for_each(Waker::wake);
    }

    fn release(&mut self, id: SlotId) {
        let slot = &mut self.slots[id as usize];
        slot.places.clear();
        (slot.owner, slot.good, slot.error, slot.answer, slot.waker) = (Owner::Free, 0, None, None, None);
        self.free.push(id);
    }

    /// Whether all frames are answered.
    #[inline]
    pub(super) fn is_done(&self, id: SlotId) -> bool {
        self.slots[id as usize].left == 0
    }

    /// The outcome of a batch that is done; `take` gets the results.
    #[inline]
    pub(super) fn finish(&mut self, id: SlotId, take: impl FnOnce(&mut Places)) -> Result<(), VerbError> {
        let slot = &mut self.slots[id as usize];
        assert!(slot.left == 0 && slot.owner == Owner::Awaited, "an outcome is taken once, when it is there");
        let outcome = slot.error.take().map_or(Ok(()), Err);
        take(&mut slot.places);
        self.release(id);
        outcome
    }

    /// The answer to a call that is done.
    pub(super) fn finish_call(&mut self, id: SlotId) -> Result<Answer, VerbError> {
        let answer = self.slots[id as usize].answer.take();
        self.finish(id, |_| ())?;
        answer.ok_or(VerbError::OutcomeUnknown)
    }

    /// Its future was dropped.
    pub(super) fn abandon(&mut self, id: SlotId) {
        let slot = &mut self.slots[id as usize];
        match slot.left {
            0 => self.release(id),
            _ => (slot.owner, slot.waker) = (Owner::Orphan, None),
        }
    }

    /// Notes the error of an unawaited batch that was not sent.
    pub(super) fn note_unawaited(&mut self, error: VerbError) {
        self.unawaited_error.get_or_insert(error);
    }

    /// Once no unawaited batch is in flight: their first error.
    pub(super) fn flushed(&mut self) -> Option<Result<(), VerbError>> {
        (self.unawaited == 0).then(|| self.unawaited_error.take().map_or(Ok(()), Err))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_several_frames_ends_with_the_last_and_with_the_worst() {
        let mut flights = Flights::default();
        let id = flights.begin(false);
        flights.places(id).extend([Place::Word(0), Place::Bytes(Buffer::sized(16)), Place::Nothing]);
        (0..2).for_each(|_| flights.add_frame(id));
        assert_eq!(flights.found(id, 0b110, &[7, 8]), Some(()));
        assert!(!flights.is_done(id));
        flights.failed(id, VerbError::no_memory(1));
        assert!(flights.is_done(id));
        let outcome =
            flights.finish(id, |places| assert!(matches!(&places[1], Place::Bytes(b) if b.words() == [7, 8])));
        assert_eq!(outcome, Err(VerbError::OutcomeUnknown), "half of it took effect");
        assert_eq!(flights.len(), 0);
    }

    #[test]
    fn an_answer_of_another_length_is_none() {
        let mut flights = Flights::default();
        for words in [&[][..], &[1, 2]] {
            let id = flights.begin(false);
            flights.places(id).push(Place::Word(0));
            flights.add_frame(id);
            assert_eq!(flights.found(id, 1, words), None);
        }
    }

    #[test]
    fn what_nobody_waits_for_ends_with_its_last_frame() {
        let mut flights = Flights::default();
        let [orphan, unawaited] = [flights.begin(false), flights.begin(true)];
        flights.add_frame(orphan);
        flights.add_frame(unawaited);
        flights.abandon(orphan);
        assert_eq!((flights.len(), flights.flushed()), (2, None));
        flights.failed(orphan, VerbError::PeerDead);
        flights.failed(unawaited, VerbError::OutcomeUnknown);
        assert_eq!((flights.len(), flights.flushed()), (0, Some(Err(VerbError::OutcomeUnknown))));
        assert_eq!(flights.flushed(), Some(Ok(())));
    }
}
