//! Orders on purpose: a client stops in front of a verb that a test names, until the test releases
//! it.
//!
//! Seeds meet a rare order once in thousands of runs, and after every change it is another seed. A
//! stop makes the order part of the test. The contract permits all of these orders:
//!
//! | stop | what has taken effect while the client stands still |
//! |---|---|
//! | in front of a verb | all verbs of the batch in front of that verb, and none from there on |
//! | behind a batch | all of the batch, whose results the client does not know yet |
//! | in a READ of several words | one word of the READ, which reads the words in any order |
//! | in a WRITE | the verbs in front of it, and the first half of its words |
//! | behind a verb that overtakes | all verbs to the node of that verb, and none to other nodes |
//! | refused | nothing, now and later: the client does not stop, and learns it |
//!
//! Only batches that the client awaits stop.

use atoll_fabric::batch::{Operation, Verb};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, VerbError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// How often a client checks that waits for another client.
const LOOK_NS: u64 = 1_000;
/// Checks after which a stop counts as never reached.
const LOOKS_MAX: u32 = 1_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Armed,
    Reached,
    Released,
}

type Place = Box<dyn FnMut(&[Verb]) -> Option<usize>>;

/// What has taken effect of the batch, beside the verbs in front of the one that was named.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Before,
    Behind,
    /// This word of the READ.
    WithinRead(Address),
    /// The first half of the WRITE.
    WithinWrite,
    /// All verbs to the same node, instead of those in front.
    Overtaking,
    /// Nothing, now and later: the client does not stop, and the batch fails.
    Refused,
}

/// One stop of one client.
pub struct Stop {
    /// Which verb of a batch it is at.
    place: RefCell<Place>,
    kind: Kind,
    state: Cell<State>,
}

impl Stop {
    /// Whether the client stands still here.
    pub fn is_reached(&self) -> bool {
        self.state.get() == State::Reached
    }

    /// Waits until the client stands still here.
    ///
    /// # Panics
    ///
    /// If it never does.
    pub async fn reached<E: Endpoint>(&self, endpoint: &E) {
        for _ in 0..LOOKS_MAX {
            if self.is_reached() {
                return;
            }
            endpoint.pause(LOOK_NS).await;
        }
        panic!("the client never comes to its stop");
    }

    /// Releases the client. A client that has not arrived here yet will not stop.
    pub fn release(&self) {
        self.state.set(State::Released);
    }
}

/// The stops of one client.
#[derive(Clone, Default)]
pub struct Stops(Rc<RefCell<Vec<Rc<Stop>>>>);

impl Stops {
    fn with(&self, kind: Kind, place: impl FnMut(&[Verb]) -> Option<usize> + 'static) -> Rc<Stop> {
        let stop = Rc::new(Stop { place: RefCell::new(Box::new(place)), kind, state: Cell::new(State::Armed) });
        self.0.borrow_mut().push(stop.clone());
        stop
    }

    /// In front of the first verb for which this holds.
    pub fn before(&self, mut is_there: impl FnMut(&Verb) -> bool + 'static) -> Rc<Stop> {
        self.with(Kind::Before, move |verbs| verbs.iter().position(&mut is_there))
    }

    /// In front of a verb for which this holds, in a batch that has a WRITE at this address in
    /// front of it.
    pub fn before_behind_write(&self, at: Address, mut is_there: impl FnMut(&Verb) -> bool + 'static) -> Rc<Stop> {
        self.with(Kind::Before, move |verbs| {
            let writes = |verb: &Verb| verb.at == at && matches!(verb.operation, Operation::Write { .. });
            let write = verbs.iter().position(writes)?;
            Some(write + verbs[write..].iter().position(&mut is_there)?)
        })
    }

    /// In front of the compare-and-swap of this word.
    pub fn before_swap(&self, at: Address) -> Rc<Stop> {
        self.before(move |verb| verb.at == at && matches!(verb.operation, Operation::CompareAndSwap { .. }))
    }

    /// In front of the batch that comes after this many batches.
    pub fn before_batch(&self, others: u64) -> Rc<Stop> {
        let mut left = others;
        self.with(Kind::Before, move |_| {
            let is_here = left == 0;
            left = left.saturating_sub(1);
            is_here.then_some(0)
        })
    }

    /// In a READ of several words that reads this one, in a batch for which this holds: it has read
    /// this word, and none of the other words.
    pub fn within_read(&self, word: Address, mut is_batch: impl FnMut(&[Verb]) -> bool + 'static) -> Rc<Stop> {
        let reads = move |verb: &Verb| {
            let Operation::Read { into } = &verb.operation else { return false };
            let offsets = verb.at.offset()..verb.at.offset() + into.len() as u64;
            let is_same = (verb.at.node(), verb.at.region()) == (word.node(), word.region());
            is_same && into.len() > 8 && offsets.contains(&word.offset())
        };
        self.with(Kind::WithinRead(word), move |verbs| verbs.iter().position(reads).filter(|_| is_batch(verbs)))
    }

    /// Behind the first batch with a verb for which this holds.
    pub fn behind(&self, mut is_there: impl FnMut(&Verb) -> bool + 'static) -> Rc<Stop> {
        self.with(Kind::Behind, move |verbs| verbs.iter().position(&mut is_there))
    }

    /// In the WRITE of which `place` gives the number in its batch.
    pub fn within_write(&self, place: impl FnMut(&[Verb]) -> Option<usize> + 'static) -> Rc<Stop> {
        self.with(Kind::WithinWrite, place)
    }

    /// Behind a verb for which this holds, in a batch that WRITEs to another node, too: of that
    /// nothing has taken effect.
    pub fn overtaking(&self, mut is_there: impl FnMut(&Verb) -> bool + 'static) -> Rc<Stop> {
        self.with(Kind::Overtaking, move |verbs| {
            let verb = verbs.iter().position(&mut is_there)?;
            let is_write =
                |operation: &Operation| matches!(operation, Operation::Write { .. } | Operation::WriteWord { .. });
            let elsewhere = |other: &Verb| other.at.node() != verbs[verb].at.node() && is_write(&other.operation);
            verbs.iter().any(elsewhere).then_some(verb)
        })
    }

    /// The first batch for which this holds fails, because its host has no memory for it.
    pub fn refused(&self, mut is_batch: impl FnMut(&[Verb]) -> bool + 'static) -> Rc<Stop> {
        self.with(Kind::Refused, move |verbs| is_batch(verbs).then_some(0))
    }

    /// The first stop that a batch reaches, and the verb in front of which it is.
    fn on_the_way(&self, batch: &Batch) -> Option<(Rc<Stop>, usize)> {
        let mut stops = self.0.borrow_mut();
        stops.retain(|stop| stop.state.get() == State::Armed);
        let place = |stop: &Rc<Stop>| Some((stop.clone(), (stop.place.borrow_mut())(batch.verbs())?));
        stops.iter().filter_map(place).min_by_key(|(_, verb)| *verb)
    }

    /// Posts a batch, with a stop if it reaches one.
    pub(super) async fn post<E: Endpoint>(&self, endpoint: &E, batch: &mut Batch) -> Result<(), VerbError> {
        let Some((stop, verb)) = self.on_the_way(batch) else { return endpoint.post(batch).await };
        let node = batch.verbs()[verb].at.node();
        if let Kind::Refused = stop.kind {
            stop.release();
            return Err(VerbError::no_memory(node));
        }
        let is_first = |index: usize, other: &Verb| match stop.kind {
            Kind::Before | Kind::WithinRead(_) | Kind::WithinWrite => index < verb,
            Kind::Behind => true,
            Kind::Refused => unreachable!("nothing of it takes effect"),
            Kind::Overtaking => other.at.node() == node,
        };
        let all = batch.verbs().iter().enumerate();
        let (first, last): (Vec<_>, Vec<_>) = all.partition(|(index, other)| is_first(*index, other));
        let [first, last] = [first, last].map(|verbs| verbs.into_iter().map(|(index, _)| index).collect::<Vec<_>>());
        post_part(endpoint, batch, &first).await?;
        let mut early = None;
        match stop.kind {
            Kind::WithinRead(at) => early = Some((at, atoll_pool::read_word(endpoint, at).await?)),
            Kind::WithinWrite => write_half(endpoint, &batch.verbs()[verb]).await?,
            Kind::Before | Kind::Behind | Kind::Overtaking | Kind::Refused => {}
        }
        stop.state.set(State::Reached);
        while stop.is_reached() {
            endpoint.pause(LOOK_NS).await;
        }
        post_part(endpoint, batch, &last).await?;
        if let Some((at, word)) = early {
            let read = &mut batch.verbs_mut()[verb];
            let index = (at.offset() - read.at.offset()) as usize / 8;
            if let Operation::Read { into } = &mut read.operation {
                into.words_mut()[index] = word;
            }
        }
        Ok(())
    }
}

/// WRITEs the first half of what a verb WRITEs.
async fn write_half<E: Endpoint>(endpoint: &E, verb: &Verb) -> Result<(), VerbError> {
    let Operation::Write { from } = &verb.operation else { panic!("the verb is no WRITE of a buffer") };
    let half = &from.words()[..from.words().len() / 2];
    let mut words = Buffer::new();
    words.resize(8 * half.len());
    words.words_mut().copy_from_slice(half);
    let mut batch = Batch::new();
    batch.write(verb.at, words);
    endpoint.post(&mut batch).await
}

/// Posts some verbs of a batch, and puts their results where they belong.
async fn post_part<E: Endpoint>(endpoint: &E, batch: &mut Batch, verbs: &[usize]) -> Result<(), VerbError> {
    if verbs.is_empty() {
        return Ok(());
    }
    let mut part = Batch::new();
    for index in verbs {
        let verb = &mut batch.verbs_mut()[*index];
        let at = verb.at;
        match std::mem::replace(&mut verb.operation, Operation::ReadWord { value: 0 }) {
            Operation::Read { into } => drop(part.read(at, into)),
            Operation::ReadWord { .. } => drop(part.read_word(at)),
            Operation::Write { from } => drop(part.write(at, from)),
            Operation::WriteWord { value } => drop(part.write_word(at, value)),
            Operation::CompareAndSwap { expected, desired, .. } => {
                part.compare_and_swap(at, expected, desired);
            }
            Operation::FetchAndAdd { addend, .. } => drop(part.fetch_and_add(at, addend)),
        }
        if verb.fenced {
            part.fence();
        }
    }
    let posted = endpoint.post(&mut part).await;
    for (index, done) in verbs.iter().zip(part.verbs_mut()) {
        std::mem::swap(&mut batch.verbs_mut()[*index].operation, &mut done.operation);
    }
    posted
}
