//! The tasks that wait in line.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

/// Tasks in the order in which they joined. They are let in one after another, and leave once they
/// have gone in, or once their futures are dropped.
#[derive(Debug)]
pub(crate) struct Line {
    places: RefCell<Places>,
    /// The number of the task that is let in next. Those before it were let in, or have left.
    next: Cell<u64>,
    /// How many were let in and have not left.
    let_in: Cell<usize>,
}

/// The places of the line, by their numbers.
#[derive(Debug)]
struct Places {
    /// The number of the first one.
    first: u64,
    /// `None` where the task has left. The first one has not.
    line: VecDeque<Option<Waker>>,
}

impl Places {
    fn index(&self, number: u64) -> usize {
        (number - self.first) as usize
    }
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

impl Line {
    pub(crate) const fn new() -> Self {
        let places = RefCell::new(Places { first: 0, line: VecDeque::new() });
        Self { places, next: Cell::new(0), let_in: Cell::new(0) }
    }

    /// Whether no task is in line.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.borrow().line.is_empty()
    }

    /// How many were let in and have not left.
    pub(crate) fn let_in(&self) -> usize {
        self.let_in.get()
    }

    /// Puts a task at the end; returns its number.
    pub(crate) fn join(&self) -> u64 {
        let mut places = self.places.borrow_mut();
        places.line.push_back(Some(Waker::noop().clone()));
        places.first + places.line.len() as u64 - 1
    }

    /// Whether a task was let in. If not, `waker` wakes it once it is.
    pub(crate) fn is_let_in(&self, number: u64, waker: &Waker) -> bool {
        let mut places = self.places.borrow_mut();
        let index = places.index(number);
        places.line[index].as_mut().expect("a task that has left asks no more").clone_from(waker);
        number < self.next.get()
    }

    /// Lets the next task in; returns whether there was one.
    pub(crate) fn let_next_in(&self) -> bool {
        let places = self.places.borrow();
        while let Some(place) = places.line.get(places.index(self.next.get())) {
            self.next.set(self.next.get() + 1);
            if let Some(waker) = place {
                self.let_in.set(self.let_in.get() + 1);
                waker.wake_by_ref();
                return true;
            }
        }
        false
    }

    /// Wakes the tasks that were let in.
    pub(crate) fn wake_let_in(&self) {
        let places = self.places.borrow();
        let let_in = places.index(self.next.get());
        places.line.iter().take(let_in).flatten().for_each(|waker| waker.wake_by_ref());
    }

    /// A task leaves.
    pub(crate) fn leave(&self, number: u64) {
        let mut places = self.places.borrow_mut();
        let index = places.index(number);
        places.line[index].take().expect("a task leaves once");
        if number < self.next.get() {
            self.let_in.set(self.let_in.get() - 1);
        }
        while let Some(None) = places.line.front() {
            places.line.pop_front();
            places.first += 1;
        }
        self.next.set(self.next.get().max(places.first));
    }
}
