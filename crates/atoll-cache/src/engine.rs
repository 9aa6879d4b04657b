//! What an engine must offer, and its duties.
//!
//! An engine is one folder with an implementation of [`Engine`]. [`Cache`](crate::Cache) checks the
//! limits of keys and values, and builds all its operations from the engine's.

use crate::{Attributes, Meta, Reading, Removals, Staged, Stats, Value};
use atoll_fabric::{Arrivals, VerbError};
use atoll_near::values::words::Sample;
use atoll_pool::PoolError;
use std::ops::Range;

/// Why an operation could not be done. It changed nothing, unless the variant says otherwise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CacheError {
    /// The key is longer than [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX).
    #[error("the key has {bytes} bytes, more than the {max} that a key may have", max = crate::KEY_BYTES_MAX)]
    KeyTooLong {
        /// Length of the key.
        bytes: usize,
    },
    /// The value is longer than this pool stores.
    #[error("the value has {bytes} bytes, more than the {max} that this pool takes: make a larger pool, or split it")]
    ValueTooLarge {
        /// Length of the value.
        bytes: usize,
        /// The longest value that this pool stores.
        max: usize,
    },
    /// The operation is for strings, and the value is of another kind.
    #[error("the value is of kind {kind}, and this operation is for strings: remove the key, or set it anew")]
    AnotherKind {
        /// What its bytes are: [`Attributes::kind_of_bytes`].
        kind: u8,
    },
    /// No object is left to evict: other clients hold all memory, in groups that they are filling.
    #[error("the pool is full and nothing in it can be evicted: make it larger, or let fewer clients write to it")]
    OutOfMemory,
    /// The key belongs into the part of the index that was on a memory node, which has ended.
    #[error("memory node {node} has ended, and the key cannot be stored before it is back: start it again")]
    NodeAbsent {
        /// The node.
        node: u8,
    },
    /// Another client has changed the key that is [held](crate::Cache::hold). Nothing was changed
    /// since the hold began.
    #[error("another client has changed the key meanwhile: begin again")]
    Overtaken,
    /// A value [arrives](crate::Cache::stage) that another client has begun: that of this
    /// connection or thread was shut out meanwhile, and this one has joined in its place.
    #[error("the client that began the value was shut out meanwhile: send the value again")]
    BegunByAnother,
    /// The pool holds bytes that no client wrote.
    #[error("the pool is damaged ({what}): check it with `atoll pool verify`")]
    Damaged {
        /// The fault that was found.
        what: &'static str,
    },
    /// The fabric failed; whether a change happened is unknown after [`VerbError::OutcomeUnknown`].
    #[error(transparent)]
    Verb(#[from] VerbError),
}

impl From<PoolError> for CacheError {
    /// The errors of an open pool: the fabric fails, or words are damaged.
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Verb(error) => Self::Verb(error),
            PoolError::Damaged { what } => Self::Damaged { what },
            _ => Self::Damaged { what: "a memory node's region is not the one that was added to the pool" },
        }
    }
}

impl CacheError {
    /// Whether the client is shut out. Another client may join in its place.
    pub fn is_shut_out(&self) -> bool {
        matches!(self, Self::Verb(VerbError::Fenced))
    }
}

/// The bytes that the values of [`Engine::get_many`] may have yet.
pub(crate) struct Room(usize);

impl Room {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self(bytes_max)
    }

    /// Counts a value, if the lookup is a hit. Returns whether it is to be the last one.
    #[inline]
    pub(crate) fn is_used_up_by(&mut self, lookup: Lookup, value: &Value) -> bool {
        if lookup == Lookup::Hit {
            self.0 = self.0.saturating_sub(value.meta().value_bytes);
        }
        self.0 == 0
    }
}

/// What tells whether objects of one word have changed: see [`Engine::mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(pub(crate) Sample);

impl Mark {
    /// Whether no mark from before says anything any more, whichever word it is of.
    pub fn ends_all_since(&self, before: &Self) -> bool {
        self.0.ends_all_since(&before.0)
    }
}

/// How a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The value is in the caller's [`Value`].
    Hit,
    /// No object has the key.
    Absent,
    /// The object with the key has expired.
    Expired,
}

/// What an engine knows of the accesses to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Hits of the object, as far as this process knows them. An engine may count a few at most,
    /// and begin anew when it moves the object.
    pub hits: u64,
    /// Milliseconds since the last access; `None` if the engine notes no times.
    pub idle_ms: Option<u64>,
}

/// What a step of a flush has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Keys that it removed.
    pub removed: u64,
    /// Where the next step begins; 0 after the last one.
    pub next: u64,
}

/// How much of the present object a [`Change`] must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Want {
    /// Only whether it is there, and its [`Meta`].
    Meta,
    /// Its value too.
    Value,
}

/// The object that a [`Change`] would replace. An expired object is not shown.
#[derive(Clone, Copy, Debug)]
pub struct Old<'a> {
    /// Its metadata.
    pub meta: Meta,
    /// Its value, if [`Change::wants`] asked for it; otherwise empty.
    pub value: &'a [u8],
}

/// What happens to the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing changes.
    Leave,
    /// The object is removed.
    Remove,
    /// The value becomes [`Change::value`], under a new token.
    Put {
        /// When it expires; `None` for never.
        expiry_ms: Option<u64>,
        /// What is said of the value.
        attributes: Attributes,
    },
    /// Value, attributes and token stay, the expiry changes. Only for a key that is there.
    Expire {
        /// When it expires; `None` for never.
        expiry_ms: Option<u64>,
    },
}

/// A change of one key. It is decided on the present object and applied only if that object is
/// still there.
pub trait Change {
    /// How much of the present object `decide` must see.
    fn wants(&self) -> Want;

    /// Decides. It is called again, with the object that is there then, whenever another client was
    /// faster. Only the last call counts. `now_ms` is the pool's clock.
    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict;

    /// The value to put, read after `decide` gave [`Verdict::Put`].
    fn value(&self) -> &[u8];

    /// The same change, owning all that it needs: see [`Lasting`](crate::Lasting).
    type Lasting: Change + 'static;

    /// Makes the lasting change, moving what can be moved.
    fn lasting(&mut self) -> Self::Lasting;

    /// Takes over the outcome of the lasting change.
    fn ended(&mut self, lasting: Self::Lasting);

    /// The value to put, if it was [staged](Engine::stage). Then [`Change::value`] is empty.
    fn staged(&mut self) -> Option<&mut Staged> {
        None
    }

    /// Whether the verdict does not depend on the present object; it is then [`Verdict::Put`] or
    /// [`Verdict::Remove`]. An engine may then call `decide` with no object and change the key
    /// without a look. It shows `decide` the replaced object afterwards.
    fn is_blind(&self) -> bool {
        false
    }
}

/// Writes the methods of an [`Engine`] that wraps another engine in the field `$engine`, and passes
/// its calls on. Those are the required methods except `get`, `update` and `stats`, and the methods
/// named behind the field.
#[macro_export]
macro_rules! pass_on_operations {
    ($engine:ident $(, $more:ident)*) => {
        $($crate::pass_on_operations!(@$more $engine);)*

        async fn peek(&self, key: &[u8]) -> Result<Option<$crate::Meta>, $crate::CacheError> {
            self.$engine.peek(key).await
        }

        async fn accesses(&self, key: &[u8]) -> Result<Option<$crate::Accesses>, $crate::CacheError> {
            self.$engine.accesses(key).await
        }

        async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, $crate::CacheError> {
            self.$engine.scan(cursor, count, each).await
        }

        async fn random_key(&self) -> Result<Option<Vec<u8>>, $crate::CacheError> {
            self.$engine.random_key().await
        }

        async fn flush(&self, cursor: u64) -> Result<$crate::Flushed, $crate::CacheError> {
            self.$engine.flush(cursor).await
        }

        async fn objects(&self) -> Result<u64, $crate::CacheError> {
            self.$engine.objects().await
        }

        async fn now_ms(&self) -> Result<u64, $crate::CacheError> {
            self.$engine.now_ms().await
        }

        fn value_bytes_max(&self) -> usize {
            self.$engine.value_bytes_max()
        }
    };
    (@stats $engine:ident) => {
        fn stats(&self) -> $crate::Stats {
            self.$engine.stats()
        }
    };
    (@stage $engine:ident) => {
        fn stage(&self, key: &[u8], value_bytes: usize) -> Option<$crate::Staged> {
            self.$engine.stage(key, value_bytes)
        }

        async fn append_staged(&self, staged: &mut $crate::Staged, bytes: &[u8]) -> Result<(), $crate::CacheError> {
            self.$engine.append_staged(staged, bytes).await
        }
    };
    (@open $engine:ident) => {
        fn opens_values(&self) -> bool {
            self.$engine.opens_values()
        }

        async fn open_value(
            &self,
            key: &[u8],
            value: &mut $crate::Value,
        ) -> Result<Option<$crate::Reading>, $crate::CacheError> {
            self.$engine.open_value(key, value).await
        }

        async fn read_on(&self, reading: &mut $crate::Reading, into: &mut [u8]) -> Result<bool, $crate::CacheError> {
            self.$engine.read_on(reading, into).await
        }
    };
    (@get $engine:ident) => {
        async fn get(&self, key: &[u8], into: &mut $crate::Value) -> Result<$crate::Lookup, $crate::CacheError> {
            self.$engine.get(key, into).await
        }
    };
}

/// A cache engine, as one client uses it: one thread, one operation at a time.
///
/// The caller keeps keys within [`KEY_BYTES_MAX`](crate::KEY_BYTES_MAX) and values within
/// [`Engine::value_bytes_max`]. The engine keeps the promises of a cache:
///
/// - Lookups and changes of one key are linearizable, where a miss counts as an eviction.
/// - An object that has expired for one client has expired for all.
/// - A change does not fail while an object can be evicted.
#[allow(async_fn_in_trait)]
pub trait Engine {
    /// Looks `key` up and counts the access; on a hit its value is put into `into`.
    async fn get(&self, key: &[u8], into: &mut Value) -> Result<Lookup, CacheError>;

    /// As [`Engine::get`], into memory of the caller. Of a hit it returns the metadata too. A value
    /// that is longer than `into` is not copied; otherwise it is at the start of `into`. After a
    /// miss any bytes may be there.
    async fn get_to(&self, key: &[u8], into: &mut [u8]) -> Result<(Lookup, Meta), CacheError> {
        let mut value = Value::new();
        let lookup = self.get(key, &mut value).await?;
        if let (Lookup::Hit, Some(place)) = (lookup, into.get_mut(..value.meta().value_bytes)) {
            place.copy_from_slice(value.bytes());
        }
        Ok((lookup, value.meta()))
    }

    /// As [`Engine::get`], but a hit puts only the bytes of the value into `into` that `part`
    /// chooses, and returns the metadata of the whole. Of a large object an engine may READ those
    /// bytes alone, and cannot hold them against the object's checksum then.
    async fn get_part<P>(&self, key: &[u8], part: P, into: &mut Value) -> Result<(Lookup, Meta), CacheError>
    where
        P: Fn(Meta) -> Range<usize> + 'static,
    {
        let lookup = self.get(key, into).await?;
        let meta = into.meta();
        if lookup == Lookup::Hit {
            into.narrow(part(meta));
        }
        Ok((lookup, meta))
    }

    /// Whether this engine can [open](Engine::open_value) large values.
    fn opens_values(&self) -> bool {
        false
    }

    /// Begins to read the large value that a lookup of `key` has left in the pool, and has noted in
    /// `value`. `None` if the object is not there any more, or too much is being read already. Only
    /// for an engine that [opens](Engine::opens_values) values.
    async fn open_value(&self, key: &[u8], value: &mut Value) -> Result<Option<Reading>, CacheError> {
        let _ = (key, value);
        Ok(None)
    }

    /// READs the next bytes of a value that is open, as many as `into` has: a multiple of 4 KiB, or
    /// all that are missing. `false` if they are not the object's any more: drop it then.
    async fn read_on(&self, reading: &mut Reading, into: &mut [u8]) -> Result<bool, CacheError> {
        let _ = (reading, into);
        Ok(false)
    }

    /// Looks many keys up at once; `found(i, lookup, value)` is called once for every `keys[i]`, in
    /// order. It may take the value's memory.
    ///
    /// The lookups end early, behind the value with which all have at least `bytes_max` bytes. An
    /// engine that [opens](Engine::opens_values) values ends them in front of one that has as many
    /// alone, and does not read that.
    async fn get_many<F: FnMut(usize, Lookup, &mut Value)>(
        &self,
        keys: &[&[u8]],
        bytes_max: usize,
        mut found: F,
    ) -> Result<(), CacheError> {
        let (mut value, mut room) = (Value::new(), Room::new(bytes_max));
        for (index, key) in keys.iter().enumerate() {
            let lookup = self.get(key, &mut value).await?;
            let is_last = room.is_used_up_by(lookup, &value);
            found(index, lookup, &mut value);
            if is_last {
                break;
            }
        }
        Ok(())
    }

    /// A hint: these keys are about to be looked up or changed, in this order. It changes and
    /// counts nothing, and never fails. The operations themselves find and report faults.
    async fn expect(&self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// Whether [`Engine::expect`] would do anything for these keys. It may be asked first where a
    /// call costs more than this.
    fn is_worth_expecting(&self, keys: &[&[u8]]) -> bool {
        let _ = keys;
        true
    }

    /// The metadata of `key`'s object, without counting an access.
    async fn peek(&self, key: &[u8]) -> Result<Option<Meta>, CacheError>;

    /// What is known of the accesses to `key`'s object, without counting one. There were none if no
    /// object has the key. `None` if the engine keeps nothing about single objects.
    async fn accesses(&self, key: &[u8]) -> Result<Option<Accesses>, CacheError> {
        let _ = key;
        Ok(None)
    }

    /// Changes `key`'s object atomically; returns the token of the object that is there afterwards,
    /// if there is one.
    async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError>;

    /// Begins a value of so many bytes for `key` that arrives in pieces. `None` if the engine
    /// stores values of that length, or any, in one step only, or if such values and those that are
    /// kept for slow readers would have more of the pool together than
    /// [`value_bytes_max`](Engine::value_bytes_max).
    fn stage(&self, key: &[u8], value_bytes: usize) -> Option<Staged> {
        let _ = (key, value_bytes);
        None
    }

    /// Appends bytes to a value that this client has begun, no more than are missing. Makes room
    /// for them. After an error the value is to be dropped.
    async fn append_staged(&self, staged: &mut Staged, bytes: &[u8]) -> Result<(), CacheError> {
        let _ = (staged, bytes);
        unreachable!("an engine that stages no value appends to none")
    }

    /// Shows at least `count` keys from `cursor` on, if there are as many, and returns the next
    /// cursor. The cursor 0 begins and ends a scan. A key that is present from the first call to
    /// the last is shown at least once.
    async fn scan<F: FnMut(&[u8])>(&self, cursor: u64, count: usize, each: F) -> Result<u64, CacheError>;

    /// Some key that is present.
    async fn random_key(&self) -> Result<Option<Vec<u8>>, CacheError>;

    /// Removes keys from `cursor` on, at most so many that it takes a fraction of a millisecond
    /// where memory is near. The cursor 0 begins and ends a flush. A key that is present from the
    /// first call to the last is removed.
    async fn flush(&self, cursor: u64) -> Result<Flushed, CacheError>;

    /// Objects in the pool, including expired objects that no client has found yet.
    async fn objects(&self) -> Result<u64, CacheError>;

    /// The pool's clock: milliseconds since the Unix epoch, never going back.
    async fn now_ms(&self) -> Result<u64, CacheError>;

    /// The number of the word that a change of `key`'s object adds to. Other keys may have the same
    /// one.
    fn word_number(&self, key: &[u8]) -> u32 {
        let _ = key;
        0
    }

    /// What the word of this number is now, without a verb. `None` as long as this client
    /// [follows](Engine::follow_changes) no words.
    ///
    /// An object whose changes [are told](Engine::tell_changes), after a mark was taken, is as it
    /// was then as long as the mark is the same. A change, an eviction or a removal by any process
    /// makes it another one before it takes effect. The end of an expiry does not.
    fn mark(&self, word_number: u32) -> Option<Mark> {
        let _ = word_number;
        None
    }

    /// Makes sure that this client follows words by which it finds that objects change. Whether it
    /// follows them; it may try again after a hundredth of a second.
    async fn follow_changes(&self) -> Result<bool, CacheError> {
        Ok(false)
    }

    /// From now on changes of `key`'s object are told: they make its [mark](Engine::mark) another
    /// one. Returns its metadata; `None` if it is not there, or is about to change, or this engine
    /// tells no changes. Counts no access.
    async fn tell_changes(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        let _ = key;
        Ok(None)
    }

    /// From now on the caller lets this client [work](Self::work) beside its operations, whenever a
    /// change has ended and the client [has work](Self::has_work): see
    /// [`Lasting`](crate::Lasting).
    fn attend(&self) {}

    /// Whether this client has work that no operation has to wait for yet. Where memory is near it
    /// has none.
    #[inline]
    fn has_work(&self) -> bool {
        false
    }

    /// Does that work: for example, it makes room ahead of need. An operation that needs what was
    /// not done does it itself.
    async fn work(&self) -> Result<(), CacheError> {
        Ok(())
    }

    /// Renews this client's lease, repairs what dead clients held, and removes expired objects at
    /// the pace of [`sweep`](crate::sweep). Operations do this by themselves. An idle client should
    /// call it every tenth of a second.
    async fn tend(&self) -> Result<(), CacheError> {
        Ok(())
    }

    /// Ends the operations under way, releases what this client holds and gives up its place. No
    /// operation follows. A caller that can wait calls it before it drops the engine: the drop does
    /// the same only where memory is near.
    async fn close(&self) -> Result<(), CacheError> {
        Ok(())
    }

    /// The longest value that this pool stores.
    fn value_bytes_max(&self) -> usize;

    /// This client's counters.
    fn stats(&self) -> Stats;

    /// How a thread waits for this client's fabric that waits for other things, too.
    #[inline]
    fn arrivals(&self) -> Option<&dyn Arrivals> {
        None
    }

    /// The objects that this client has removed, if its engine notes them.
    #[inline]
    fn removals(&self) -> Option<&Removals> {
        None
    }
}
