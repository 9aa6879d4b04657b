//! The tasks that wait in line.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::task::Waker;

/// Tasks in the order in which they joined. They are let in one after another, and leave once they
/// have gone in, or once their futures are dropped.
#[derive(Debug)]
pub(crate) struct Line {
    tasks: RefCell<Tasks>,
}

impl Default for Line {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Debug)]
struct Tasks {
    /// By their numbers, which grow. Those that were let in come first.
    line: VecDeque<Task>,
    let_in: usize,
    joined: u64,
}

#[derive(Debug)]
struct Task {
    number: u64,
    waker: Waker,
}

impl Tasks {
    fn place(&self, number: u64) -> usize {
        self.line.partition_point(|task| task.number < number)
    }
}

impl Line {
    pub(crate) const fn new() -> Self {
        Self { tasks: RefCell::new(Tasks { line: VecDeque::new(), let_in: 0, joined: 0 }) }
    }

    /// Whether no task is in line.
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks.borrow().line.is_empty()
    }

    /// How many were let in and have not left.
    pub(crate) fn let_in(&self) -> usize {
        self.tasks.borrow().let_in
    }

    /// Puts a task at the end; returns its number.
    pub(crate) fn join(&self) -> u64 {
        let mut tasks = self.tasks.borrow_mut();
        let number = tasks.joined;
        tasks.joined += 1;
        tasks.line.push_back(Task { number, waker: Waker::noop().clone() });
        number
    }

    /// Whether a task was let in. If not, `waker` wakes it once it is.
    pub(crate) fn is_let_in(&self, number: u64, waker: &Waker) -> bool {
        let mut tasks = self.tasks.borrow_mut();
        let place = tasks.place(number);
        tasks.line[place].waker.clone_from(waker);
        place < tasks.let_in
    }

    /// Lets the next task in; returns whether there was one.
    pub(crate) fn let_next_in(&self) -> bool {
        let mut tasks = self.tasks.borrow_mut();
        let Some(next) = tasks.line.get(tasks.let_in) else { return false };
        next.waker.wake_by_ref();
        tasks.let_in += 1;
        true
    }

    /// Wakes the tasks that were let in.
    pub(crate) fn wake_let_in(&self) {
        let tasks = self.tasks.borrow();
        tasks.line.iter().take(tasks.let_in).for_each(|task| task.waker.wake_by_ref());
    }

    /// A task leaves.
    pub(crate) fn leave(&self, number: u64) {
        let mut tasks = self.tasks.borrow_mut();
        let place = tasks.place(number);
        tasks.line.remove(place).expect("a task leaves once");
        if place < tasks.let_in {
            tasks.let_in -= 1;
        }
    }
}
