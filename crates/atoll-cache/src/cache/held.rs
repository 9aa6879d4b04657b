//! Several operations on one key, as one atomic step for the whole pool.
//!
//! A [`Hold`] has the key's object as it was at one moment. Operations of its cache on that key see
//! and change what the hold has, and nothing else. At the end one compare-and-swap publishes what
//! they made of it, if the object is still the one that was seen. Otherwise nothing was changed,
//! and the caller begins again.
//!
//! | the hold | an operation on its key | an operation on anything else |
//! |---|---|---|
//! | has the key | works on the hold | publishes first, and then runs if that succeeded |
//! | was published, and is over | as without a hold | as without a hold |
//! | was overtaken, or failed | fails | fails |
//!
//! A hold is overtaken when another client changes the object, and when the object that was seen
//! expires. Before an operation on something else this is looked at even if the hold has changed
//! nothing. A hold that only reads its key need not be looked at: it shows one moment.
//!
//! So nothing is changed outside the hold before it is known that the hold was not overtaken. All
//! operations between its begin and its end must be the caller's own. Counting objects and looking
//! after the pool ([`Cache::objects`], [`Cache::tend`]) leave it alone.

use super::{Cache, checked};
use crate::{CacheError, Change, Engine, Lookup, Meta, Old, Value, Verdict, Want};
use std::cell::{Cell, RefCell};

/// What a cache has held.
#[derive(Default)]
pub(super) struct Held {
    /// Whether operations must look at the rest. Otherwise they look at nothing else.
    is_on: Cell<bool>,
    state: RefCell<State>,
}

#[derive(Default)]
enum State {
    Has(Box<Object>),
    #[default]
    Over,
    Failed(CacheError),
}

/// The object of the key that is held.
struct Object {
    key: Vec<u8>,
    /// What was there: its token and expiry.
    seen: Option<(u64, Option<u64>)>,
    /// What is there by now.
    now: Option<Value>,
    changed: Changed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Changed {
    Nothing,
    Expiry,
    Value,
}

impl Object {
    /// What is there at this moment of the pool's clock.
    fn at(&self, now_ms: u64) -> Option<&Value> {
        self.now.as_ref().filter(|value| value.meta().expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms))
    }

    /// Whether the object that was seen has expired: what the hold shows was so before, and cannot
    /// be published.
    fn has_lapsed(&self, now_ms: u64) -> bool {
        matches!(self.seen, Some((_, Some(expiry_ms))) if expiry_ms <= now_ms)
    }

    fn apply<C: Change>(&mut self, now_ms: u64, change: &mut C) -> Option<u64> {
        let old = self.at(now_ms).map(|value| Old { meta: value.meta(), value: value.bytes() });
        let mut kept = old.map(|old| old.meta);
        let changed = match change.decide(now_ms, old) {
            Verdict::Leave => return kept.map(|meta| meta.token),
            Verdict::Remove => {
                (self.now, kept) = (None, None);
                Changed::Value
            }
            Verdict::Put { expiry_ms, attributes } => {
                // It gets its token when it is published.
                let meta = Meta { expiry_ms, token: 0, value_bytes: 0, attributes };
                self.now.get_or_insert_default().assign(change.value(), meta);
                kept = Some(meta);
                Changed::Value
            }
            Verdict::Expire { expiry_ms } => {
                if let Some(value) = &mut self.now {
                    value.meta.expiry_ms = expiry_ms;
                }
                Changed::Expiry
            }
        };
        self.changed = self.changed.max(changed);
        kept.map(|meta| meta.token)
    }
}

/// Replaces the object that was seen by what was made of it.
struct Publish {
    object: Box<Object>,
    /// Whether the object was still there.
    is_done: bool,
}

impl Change for Publish {
    type Lasting = Self;

    fn wants(&self) -> Want {
        Want::Meta
    }

    fn decide(&mut self, now_ms: u64, old: Option<Old<'_>>) -> Verdict {
        self.is_done = old.map(|old| (old.meta.token, old.meta.expiry_ms)) == self.object.seen;
        match self.object.at(now_ms).map(Value::meta) {
            _ if !self.is_done => Verdict::Leave,
            None if old.is_some() => Verdict::Remove,
            None => Verdict::Leave,
            Some(Meta { expiry_ms, .. }) if self.object.changed == Changed::Expiry => Verdict::Expire { expiry_ms },
            Some(Meta { expiry_ms, attributes, .. }) => Verdict::Put { expiry_ms, attributes },
        }
    }

    fn value(&self) -> &[u8] {
        self.object.now.as_ref().map_or(&[], Value::bytes)
    }

    fn lasting(&mut self) -> Self {
        let nothing = Object { key: Vec::new(), seen: None, now: None, changed: Changed::Nothing };
        Self { object: std::mem::replace(&mut self.object, Box::new(nothing)), is_done: false }
    }

    fn ended(&mut self, lasting: Self) {
        *self = lasting;
    }
}

/// A key whose object several operations change in one step: see [`Cache::hold`]. Dropped without
/// [`publish`](Self::publish), it has changed nothing, unless an operation on something else has
/// published it.
pub struct Hold<'a, G: Engine>(&'a Cache<G>);

impl<G: Engine> Hold<'_, G> {
    /// Ends it. `false` if another client has changed the key meanwhile: then nothing was changed
    /// since the hold began.
    ///
    /// # Errors
    /// What kept the key from being changed, such as a lack of memory.
    pub async fn publish(self) -> Result<bool, CacheError> {
        match self.0.end_hold(false).await {
            Ok(()) => Ok(true),
            Err(CacheError::Overtaken) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl<G: Engine> Drop for Hold<'_, G> {
    fn drop(&mut self) {
        self.0.held.is_on.set(false);
        self.0.held.state.take();
    }
}

impl<G: Engine> Cache<G> {
    /// Begins several operations on `key` that are to be one step for the whole pool. Until the
    /// hold ends, all operations of this cache must be of those. See the module `held`.
    ///
    /// # Panics
    ///
    /// If this cache has a hold already.
    pub async fn hold(&self, key: &[u8]) -> Result<Hold<'_, G>, CacheError> {
        assert!(!self.is_held(), "a cache holds one key at a time");
        let mut value = Value::new();
        let is_there = self.engine.get(checked(key)?, &mut value).await? == Lookup::Hit;
        let now = is_there.then_some(value);
        let seen = now.as_ref().map(|value| (value.meta().token, value.meta().expiry_ms));
        let object = Object { key: key.to_vec(), seen, now, changed: Changed::Nothing };
        self.held.state.replace(State::Has(Box::new(object)));
        self.held.is_on.set(true);
        Ok(Hold(self))
    }

    /// Whether there is a hold, whatever has become of it.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held.is_on.get()
    }

    /// Whether the hold was overtaken or has failed, so that operations fail until it ends.
    pub fn has_lost_hold(&self) -> bool {
        matches!(&*self.held.state.borrow(), State::Failed(_))
    }

    /// Publishes the hold, if there is one, so that what follows can change other things.
    ///
    /// # Errors
    /// [`CacheError::Overtaken`] if another client has changed the key meanwhile.
    pub async fn let_go(&self) -> Result<(), CacheError> {
        self.end_hold(true).await
    }

    async fn end_hold(&self, goes_on: bool) -> Result<(), CacheError> {
        let object = match self.held.state.take() {
            State::Has(object) => object,
            State::Over => return Ok(()),
            State::Failed(error) => {
                self.held.state.replace(State::Failed(error.clone()));
                return Err(error);
            }
        };
        if object.changed == Changed::Nothing && !goes_on {
            return Ok(());
        }
        // If this future is dropped, the hold's end is not known.
        self.held.state.replace(State::Failed(CacheError::Overtaken));
        let published = match self.publish(object).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(CacheError::Overtaken),
            Err(error) => Err(error),
        };
        self.held.state.replace(published.clone().map_or_else(State::Failed, |()| State::Over));
        published
    }

    /// Publishes what was made of an object, if it is still the one that was seen.
    async fn publish(&self, object: Box<Object>) -> Result<bool, CacheError> {
        if object.changed == Changed::Nothing {
            let now = self.engine.peek(&object.key).await?;
            return Ok(now.map(|meta| (meta.token, meta.expiry_ms)) == object.seen);
        }
        let key = object.key.clone();
        let mut publish = Publish { object, is_done: false };
        self.engine.update(&key, &mut publish).await?;
        Ok(publish.is_done)
    }

    /// Does something with the object of a key that is held. Lets go if the key is another one;
    /// then the caller does it without the hold.
    async fn with_held<T>(
        &self,
        key: &[u8],
        each: impl FnOnce(&mut Object, u64) -> T,
    ) -> Result<Option<T>, CacheError> {
        let now_ms = self.engine.now_ms().await?;
        {
            let mut state = self.held.state.borrow_mut();
            if let State::Has(object) = &mut *state
                && object.key == key
            {
                if !object.has_lapsed(now_ms) {
                    return Ok(Some(each(object, now_ms)));
                }
                *state = State::Failed(CacheError::Overtaken);
            }
        }
        self.let_go().await.map(|()| None)
    }

    #[cold]
    pub(super) async fn get_held(&self, key: &[u8], into: &mut Value) -> Result<bool, CacheError> {
        let look = |object: &mut Object, now_ms| {
            let found = object.at(now_ms);
            found.into_iter().for_each(|value| into.assign(value.bytes(), value.meta()));
            found.is_some()
        };
        match self.with_held(checked(key)?, look).await? {
            Some(is_there) => Ok(is_there),
            None => Ok(self.engine.get(key, into).await? == Lookup::Hit),
        }
    }

    #[cold]
    pub(super) async fn peek_held(&self, key: &[u8]) -> Result<Option<Meta>, CacheError> {
        match self.with_held(checked(key)?, |object, now_ms| object.at(now_ms).map(Value::meta)).await? {
            Some(found) => Ok(found),
            None => self.engine.peek(key).await,
        }
    }

    #[cold]
    pub(super) async fn update_held<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        match self.with_held(key, |object, now_ms| object.apply(now_ms, change)).await? {
            Some(token) => Ok(token),
            None => self.engine.update(key, change).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use crate::{Attributes, Condition, ExpireCondition, Expiry, Number, SetOptions};
    use atoll_fabric::{Clock, run_ready};
    use std::rc::Rc;
    use std::sync::atomic::Ordering::Relaxed;

    /// A client of a model that others use, too.
    struct Shared {
        model: Rc<Model>,
    }

    impl Engine for Shared {
        crate::pass_on_operations!(model, get, stats);

        async fn update<C: Change>(&self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
            self.model.update(key, change).await
        }
    }

    /// Two clients of one model, and the hand of its clock.
    fn caches() -> ([Cache<Shared>; 2], std::sync::Arc<std::sync::atomic::AtomicU64>) {
        let (clock, hand) = Clock::manual(1_000_000_000);
        let model = Rc::new(Model::new(clock));
        ([(); 2].map(|()| Cache::new(Shared { model: model.clone() })), hand)
    }

    async fn text(cache: &Cache<Shared>, key: &[u8]) -> Option<String> {
        let mut value = Value::new();
        let found = cache.get(key, &mut value).await.unwrap();
        found.then(|| String::from_utf8(value.bytes().to_vec()).unwrap())
    }

    #[test]
    fn what_a_hold_has_made_is_seen_by_others_when_it_is_published() {
        let ([cache, other], _) = caches();
        run_ready(async {
            let hold = cache.hold(b"k").await.unwrap();
            assert_eq!(cache.increment(b"k", 5).await, Ok(Number::Value(5)));
            assert_eq!(cache.append(b"k", b"0").await, Ok(2));
            assert_eq!(text(&cache, b"k").await.as_deref(), Some("50"));
            assert_eq!(cache.peek(b"k").await.unwrap().unwrap().value_bytes, 2);
            assert_eq!(text(&other, b"k").await, None);
            assert_eq!(hold.publish().await, Ok(true));
            assert_eq!(text(&other, b"k").await.as_deref(), Some("50"));
            let hold = cache.hold(b"k").await.unwrap();
            assert_eq!(cache.delete(b"k").await, Ok(true));
            assert_eq!(cache.delete(b"k").await, Ok(false));
            assert_eq!((hold.publish().await, text(&other, b"k").await), (Ok(true), None));
        });
    }

    #[test]
    fn a_hold_that_was_overtaken_changes_nothing() {
        let ([cache, other], _) = caches();
        run_ready(async {
            for (before, overtake) in [(None, Some("1")), (Some("1"), None), (Some("1"), Some("1"))] {
                other.delete(b"k").await.unwrap();
                if let Some(value) = before {
                    other.set(b"k", value.as_bytes(), &SetOptions::default()).await.unwrap();
                }
                let hold = cache.hold(b"k").await.unwrap();
                cache.set(b"k", b"mine", &SetOptions::default()).await.unwrap();
                match overtake {
                    Some(value) => drop(other.set(b"k", value.as_bytes(), &SetOptions::default()).await.unwrap()),
                    None => drop(other.delete(b"k").await.unwrap()),
                }
                assert_eq!(hold.publish().await, Ok(false));
                assert_eq!(text(&cache, b"k").await.as_deref(), overtake);
            }
        });
    }

    #[test]
    fn a_hold_that_is_dropped_changes_nothing_and_one_that_only_reads_is_never_overtaken() {
        let ([cache, other], _) = caches();
        run_ready(async {
            let hold = cache.hold(b"k").await.unwrap();
            cache.set(b"k", b"mine", &SetOptions::default()).await.unwrap();
            drop(hold);
            assert_eq!(text(&cache, b"k").await, None);
            let hold = cache.hold(b"k").await.unwrap();
            other.set(b"k", b"other", &SetOptions::default()).await.unwrap();
            assert_eq!(text(&cache, b"k").await, None);
            assert_eq!(hold.publish().await, Ok(true));
        });
    }

    #[test]
    fn an_operation_on_another_key_publishes_first_and_fails_if_that_does() {
        let ([cache, other], _) = caches();
        run_ready(async {
            let hold = cache.hold(b"k").await.unwrap();
            cache.set(b"k", b"1", &SetOptions::default()).await.unwrap();
            cache.set(b"l", b"1", &SetOptions::default()).await.unwrap();
            assert_eq!(text(&other, b"k").await.as_deref(), Some("1"));
            // From now on it is as without a hold.
            other.set(b"k", b"2", &SetOptions::default()).await.unwrap();
            assert_eq!(cache.increment(b"k", 1).await, Ok(Number::Value(3)));
            assert_eq!(hold.publish().await, Ok(true));

            // Many keys are looked up in the hold as long as they are the key.
            let hold = cache.hold(b"k").await.unwrap();
            cache.set(b"k", b"4", &SetOptions::default()).await.unwrap();
            let mut found = Vec::new();
            cache.get_many(&[b"k", b"k"], |_, value| found.push(value.unwrap().bytes().to_vec())).await.unwrap();
            assert_eq!((found, text(&other, b"k").await.as_deref()), (vec![b"4".to_vec(); 2], Some("3")));
            let mut place = [0; 2];
            let meta = cache.get_to_slice(b"k", &mut place).await.unwrap().unwrap();
            assert_eq!((meta.value_bytes, place), (1, *b"4\0"));
            drop(hold);
            // A hold that has only read is looked at before anything else is changed.
            let hold = cache.hold(b"k").await.unwrap();
            assert_eq!(text(&cache, b"k").await.as_deref(), Some("3"));
            other.set(b"k", b"5", &SetOptions::default()).await.unwrap();
            assert_eq!(cache.delete(b"l").await, Err(CacheError::Overtaken));
            drop(hold);

            let hold = cache.hold(b"k").await.unwrap();
            cache.set(b"k", b"mine", &SetOptions::default()).await.unwrap();
            other.set(b"k", b"5", &SetOptions::default()).await.unwrap();
            let mut value = Value::new();
            let overtaken = CacheError::Overtaken;
            assert_eq!(cache.delete(b"l").await, Err(overtaken.clone()));
            assert_eq!(cache.scan(0, 10, |_| ()).await, Err(overtaken.clone()));
            assert_eq!(cache.random_key().await, Err(overtaken.clone()));
            assert_eq!(cache.flush().await, Err(overtaken.clone()));
            assert_eq!(cache.get_many(&[b"l"], |_, _| ()).await, Err(overtaken.clone()));
            assert_eq!(cache.get(b"k", &mut value).await, Err(overtaken));
            assert_eq!(cache.objects().await, Ok(2));
            assert_eq!(hold.publish().await, Ok(false));
            assert_eq!(text(&cache, b"l").await.as_deref(), Some("1"), "nothing else was changed");
        });
    }

    #[test]
    fn expiries_and_attributes_are_kept_and_changed_as_without_a_hold() {
        let ([cache, other], hand) = caches();
        run_ready(async {
            let attributes = Attributes { kind: 0, flags: 7 };
            let options = SetOptions { expiry: Expiry::InMs(1000), attributes, ..SetOptions::default() };
            cache.set(b"k", b"1", &options).await.unwrap();
            let seen = cache.peek(b"k").await.unwrap().unwrap();
            let hold = cache.hold(b"k").await.unwrap();
            cache.expire(b"k", Expiry::InMs(3000), ExpireCondition::default()).await.unwrap();
            assert_eq!(hold.publish().await, Ok(true));
            let now = other.peek(b"k").await.unwrap().unwrap();
            assert_eq!((now.token, now.attributes), (seen.token, attributes), "the expiry alone has changed");
            assert_ne!(now.expiry_ms, seen.expiry_ms);
            // A change of the expiry overtakes, too.
            let hold = cache.hold(b"k").await.unwrap();
            cache.increment(b"k", 1).await.unwrap();
            other.expire(b"k", Expiry::InMs(2000), ExpireCondition::default()).await.unwrap();
            assert_eq!(hold.publish().await, Ok(false));
            let hold = cache.hold(b"k").await.unwrap();
            cache.increment(b"k", 1).await.unwrap();
            assert_eq!(hold.publish().await, Ok(true));
            assert_eq!(other.peek(b"k").await.unwrap().unwrap().attributes, attributes);
            // What expires meanwhile has changed, even for a hold that only reads: another client,
            // whose clock is a little behind, may make it last.
            let hold = cache.hold(b"k").await.unwrap();
            hand.fetch_add(5_000_000_000, Relaxed);
            assert_eq!(cache.peek(b"k").await, Err(CacheError::Overtaken));
            assert!(cache.has_lost_hold());
            assert_eq!(hold.publish().await, Ok(false));
            let hold = cache.hold(b"k").await.unwrap();
            assert_eq!(text(&cache, b"k").await, None);
            let absent = SetOptions { condition: Condition::IfAbsent, ..SetOptions::default() };
            assert!(cache.set(b"k", b"new", &absent).await.unwrap().stored);
            assert_eq!(hold.publish().await, Ok(true));
        });
    }
}
