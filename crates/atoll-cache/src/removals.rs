//! The objects that a client has removed from the pool, for a program that asks for them.
//!
//! | cause | what the client did | noted by |
//! |---|---|---|
//! | [`Cause::Evicted`] | made room | the engine |
//! | [`Cause::Expired`] | found an expired object, and removed it | the engine |
//! | [`Cause::Removed`] | obeyed a caller: a delete, an expiry in the past, a flush | [`Cache`](crate::Cache); the engine for a flush |
//! | [`Cause::Replaced`] | put another value | [`Cache`](crate::Cache) |
//!
//! Invariants:
//! - A client notes an object only after its own compare-and-swap took the object out of its slot.
//!   So all clients of a pool together note an object at most once.
//! - The key comes from the object's record. The client READs the record only if the program asks
//!   for removals. An object whose record is damaged is not noted.
//! - An expired object that a change overwrites is not noted: the change found nothing there.
//!
//! A client notes nothing until the program [asks](Removals::begin). Until then a change pays one
//! branch. A lookup that hits pays nothing. A program that asks for [lost](Removals::begin_lost)
//! objects alone pays nothing for its own changes, however many objects a flush removes.

use crate::index::Index;
use crate::record::Record;
use crate::{CacheError, Meta};
use atoll_fabric::{Buffer, Endpoint};
use std::cell::{Cell, RefCell};

/// Why an object was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// To make room.
    Evicted,
    /// It had expired.
    Expired,
    /// A change put another value in its place.
    Replaced,
    /// A caller removed it.
    Removed,
}

/// An object that was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The object's key.
    pub key: Vec<u8>,
    /// The object's metadata.
    pub meta: Meta,
    /// Why it was removed.
    pub cause: Cause,
}

/// Which removals a client notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Scope {
    #[default]
    None,
    /// Those that no caller asked for.
    Lost,
    All,
}

/// The removals of one client that its caller has not taken yet.
#[derive(Debug, Default)]
pub struct Removals {
    scope: Cell<Scope>,
    /// In the order in which the client removed them.
    noted: RefCell<Vec<Removal>>,
}

impl Removals {
    /// From now on, the client notes the objects that it removes. The caller must take the notes
    /// after each operation. Otherwise they use more and more memory.
    pub fn begin(&self) {
        self.scope.set(Scope::All);
    }

    /// As [`begin`](Self::begin), for objects that no caller has removed or replaced:
    /// [`Cause::Evicted`] and [`Cause::Expired`].
    pub fn begin_lost(&self) {
        self.scope.set(Scope::Lost);
    }

    /// From now on, the client notes nothing. Notes that were not taken are dropped.
    pub fn end(&self) {
        self.scope.set(Scope::None);
        self.noted.take();
    }

    /// Whether the client notes objects that it removes, of some cause at least.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.scope.get() != Scope::None
    }

    /// Whether the client notes objects that it removes for this cause.
    #[inline]
    pub(crate) fn notes(&self, cause: Cause) -> bool {
        match self.scope.get() {
            Scope::None => false,
            Scope::Lost => matches!(cause, Cause::Evicted | Cause::Expired),
            Scope::All => true,
        }
    }

    /// Takes the notes since the last call.
    pub fn take(&self) -> Vec<Removal> {
        self.noted.take()
    }

    pub(crate) fn note(&self, removal: Removal) {
        // An operation may end after the program has asked for less.
        if self.notes(removal.cause) {
            self.noted.borrow_mut().push(removal);
        }
    }

    /// Notes the result of [`removal_of`] after the client has removed the object.
    pub(crate) fn note_read(&self, removal: Option<Box<Removal>>) {
        removal.into_iter().for_each(|removal| self.note(*removal));
    }
}

/// The removal to note of an object with this record. The object is still in its slot, or this
/// client has removed it and not freed its memory yet. The cause of an expired object is
/// [`Cause::Expired`], unless a caller removes it. `None` if the extents of a large object do not
/// have the key.
pub(crate) async fn removal_of(
    index: &impl Index,
    record: &Record<'_>,
    cause: Cause,
) -> Result<Option<Box<Removal>>, CacheError> {
    let (io, header) = (index.extent_io(), record.header);
    let key = match record.large() {
        None => record.key.to_vec(),
        Some(body) => {
            let Some(extents) = io.extents(&header, &body).await? else { return Ok(None) };
            let read = io.read_extents(&extents, header.key_bytes, Buffer::new()).await?;
            let key = read.bytes()[..header.key_bytes].to_vec();
            if io.hasher.hash(&key) != body.key_hash {
                return Ok(None);
            }
            key
        }
    };
    let now_ms = io.client.pool_ms(io.client.endpoint.now_ns()).await?;
    let cause = if cause == Cause::Evicted && header.is_expired(now_ms) { Cause::Expired } else { cause };
    Ok(Some(Box::new(Removal { key, meta: Meta::of(&header), cause })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_notes_what_its_program_asks_for() {
        let removals = Removals::default();
        let all = [Cause::Evicted, Cause::Expired, Cause::Replaced, Cause::Removed];
        let noted = || {
            for cause in all {
                let meta = Meta::default();
                removals.note(Removal { key: b"k".to_vec(), meta, cause });
            }
            removals.take().into_iter().map(|removal| removal.cause).collect::<Vec<_>>()
        };
        assert!(!removals.is_on() && noted().is_empty());
        removals.begin_lost();
        assert!(removals.is_on());
        assert_eq!(noted(), all[..2]);
        removals.begin();
        assert_eq!(noted(), all);
        removals.note(Removal { key: Vec::new(), meta: Meta::default(), cause: Cause::Evicted });
        removals.end();
        assert!(!removals.is_on() && removals.take().is_empty());
    }
}
