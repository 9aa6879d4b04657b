//! One operation of a client: the state that operations of every engine have. A client keeps ended
//! operations with their buffers, and reuses them.

use crate::Value;
use crate::overtaken::Overtaken;
use atoll_fabric::{Buffer, Endpoint};
use atoll_pool::Client;
use atoll_pool::in_flight::Entry;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};

/// One operation. `S` is the engine's word of a slot, `N` the engine's own part.
#[derive(Debug)]
pub(crate) struct Operation<S, N> {
    /// The slots of its key's bucket.
    pub(crate) bucket: Buffer,
    /// A record that the operation has READ.
    pub(crate) record: Buffer,
    /// A record that the operation is to WRITE.
    pub(crate) outgoing: Buffer,
    /// The value that a change replaces.
    pub(crate) old: Value,
    /// The slot and the word of the object that a lookup found.
    pub(crate) found: Option<(u64, S)>,
    /// The change that overtook this one, if one did.
    pub(crate) overtaken: Option<Overtaken<S>>,
    /// Whether the operation has reserved an object: see `has_reserved`.
    reserved: bool,
    /// The operation's entry among those in flight of its client.
    pub(crate) entry: Entry,
    /// The engine's own part.
    pub(crate) notes: N,
}

/// An engine's own part of an operation.
pub(crate) trait Notes: Default {
    /// Gives back what the operation still has of its client: it has ended, or its future was
    /// dropped. By default it has nothing.
    #[inline(always)]
    fn end<E: Endpoint>(&mut self, client: &Client<E>) {
        let _ = client;
    }
}

impl<S, N: Default> Default for Operation<S, N> {
    fn default() -> Self {
        Self {
            bucket: Buffer::new(),
            record: Buffer::new(),
            outgoing: Buffer::new(),
            old: Value::new(),
            found: None,
            overtaken: None,
            reserved: false,
            entry: Entry::default(),
            notes: N::default(),
        }
    }
}

impl<S, N> Operation<S, N> {
    /// Whether the operation has reserved an object. It has then counted the object against the
    /// limit, and has yet to insert it.
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved
    }

    /// Sets whether the operation has reserved an object. Keeps the number of such operations in
    /// `of_client`.
    pub(crate) fn set_reserved(&mut self, of_client: &Cell<u64>, is_reserved: bool) {
        of_client.set(of_client.get() - u64::from(self.reserved) + u64::from(is_reserved));
        self.reserved = is_reserved;
    }
}

/// Operations of a client that have ended.
#[derive(Debug)]
pub(crate) struct Idle<S, N> {
    operations: RefCell<Vec<Box<Operation<S, N>>>>,
}

impl<S, N> Default for Idle<S, N> {
    fn default() -> Self {
        Self { operations: RefCell::default() }
    }
}

impl<S, N: Notes> Idle<S, N> {
    /// Takes an operation, which ends when it is dropped. The caller [begins](Client::begin) it,
    /// unless it is part of another operation.
    #[inline]
    pub(crate) fn take<'c, E: Endpoint>(&'c self, client: &'c Client<E>) -> UnderWay<'c, E, S, N> {
        let operation = self.operations.borrow_mut().pop().unwrap_or_default();
        UnderWay { idle: self, client, operation: Some(operation) }
    }
}

/// An operation under way. Its client gets it back at the end.
pub(crate) struct UnderWay<'c, E: Endpoint, S, N: Notes> {
    idle: &'c Idle<S, N>,
    client: &'c Client<E>,
    operation: Option<Box<Operation<S, N>>>,
}

impl<E: Endpoint, S, N: Notes> Deref for UnderWay<'_, E, S, N> {
    type Target = Operation<S, N>;

    #[inline]
    fn deref(&self) -> &Operation<S, N> {
        self.operation.as_deref().expect("it is given back at the end")
    }
}

impl<E: Endpoint, S, N: Notes> DerefMut for UnderWay<'_, E, S, N> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Operation<S, N> {
        self.operation.as_deref_mut().expect("it is given back at the end")
    }
}

impl<E: Endpoint, S, N: Notes> Drop for UnderWay<'_, E, S, N> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(mut operation) = self.operation.take() {
            operation.notes.end(self.client);
            self.client.in_flight().leave(&mut operation.entry);
            self.idle.operations.borrow_mut().push(operation);
        }
    }
}
