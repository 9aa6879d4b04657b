//! Ditto: evictors sample objects, and several policies each name a victim. The policy that decides
//! is learnt from regrets.
//!
//! After Shen et al., "Ditto: An Elastic and Adaptive Memory-Disaggregated Caching System" (SOSP
//! 2023), on [`table`](crate::table).
//!
//! | module | concept |
//! |---|---|
//! | [`settings`] | what clients of a pool agree on |
//! | [`counters`] | accesses that the pool does not know yet (section 4.2.2) |
//! | `kind` | `ditto` among the engines that users choose from |
//! | `shared` | the words that all clients' experts share |
//! | [`technique`] | what another form of Ditto does instead |
//!
//! | the paper | here |
//! |---|---|
//! | access information beside every slot | behind the slots of its bucket ([`table::access`](crate::table::access)) |
//! | the experts of a history entry in a word of their own | in the slot word |
//! | the history counter READ with every lookup | known from this client's own evictions; an age that is a little too young costs a little too much regret |
//! | a regret when a key with a history entry is looked up | when it is inserted, which consumes the entry: no entry is regretted twice |
//! | weights merged by the memory node's processor | by FAA on one word an expert ([`experts`] says why that is the same): a memory node has none |
//! | clients' wall clocks compared | the pool's clock, which is within two milliseconds on all of them |
//! | the cache holds so many objects, the history as many entries | the index is made for so many objects, with as many slots for history |

pub mod counters;
mod kind;
pub mod settings;
mod shared;
pub mod technique;

pub use kind::DittoKind;
pub use settings::{DittoOptions, ENGINE_DITTO, History};
pub use technique::{Shipped, Technique};

use crate::CacheError;
use crate::experts::{self, Experts, REMEMBERED_MAX};
use crate::policy::{self, EXTENSION_WORDS_MAX, Ghost};
use crate::table::access::{self, Access};
use crate::table::replacement::{Accessed, CANDIDATES_MAX, Candidate, Inserted, Replacement, Sampling, Victim};
use crate::table::slot::{EXPERTS_MAX, Slot};
use crate::table::{Core, Objects, TablePool};
use arrayvec::ArrayVec;
use atoll_fabric::purpose::Scope;
use atoll_fabric::{BATCH_VERBS_MAX, Batch, Buffer, Endpoint, Purpose};
use atoll_pool::PoolError;
use counters::Counters;

/// A client of a `ditto` pool.
pub type Ditto<E> = Objects<E, Adaptive>;

/// Words beside an object.
type Words = ArrayVec<u64, EXTENSION_WORDS_MAX>;

/// One client's side of Ditto: its experts, and the counts that it has not published.
pub struct Adaptive<T = Shipped> {
    settings: DittoOptions,
    experts: Experts,
    /// Evictions that a history entry lasts.
    history: u32,
    counters: Counters,
    /// The policies' shared numbers, as this client knows them.
    globals: ArrayVec<u64, EXPERTS_MAX>,
    /// Whether some of its numbers are larger than the pool's.
    unpublished: bool,
    /// The objects that came nearest to being evicted the last time.
    remembered: ArrayVec<(u64, Slot), REMEMBERED_MAX>,
    /// The steps that this form of Ditto changes.
    technique: T,
}

impl<T: Technique> Adaptive<T> {
    /// Makes the client one of this form, before its first operation.
    pub fn set_technique(&mut self, technique: T) {
        if !technique.counts_at_home() {
            self.counters = Counters::new(0, 1, self.settings.counter_age_us);
        }
        self.technique = technique;
    }

    /// The weights of the experts, which add up to one, in the order of the pool's policies.
    pub fn weights(&self) -> &[f64] {
        self.experts.weights()
    }

    fn object(access: &Access) -> policy::Object {
        policy::Object {
            inserted_us: access.inserted_us,
            accessed_us: access.last_us,
            frequency: access.frequency,
            bytes: access.bytes.max(1),
        }
    }

    /// Updates the words beside an object, without waiting.
    fn publish_extension<E: Endpoint>(&self, core: &Core<E>, object: &Accessed<'_>, access: &policy::Access<'_>) {
        if self.experts.set().extension_words() == 0 {
            return;
        }
        let mut words: Words = object.extension.iter().copied().take(EXTENSION_WORDS_MAX).collect();
        while words.len() < self.experts.set().extension_words() {
            words.push(0);
        }
        self.experts.set().accessed(access, &self.globals, &mut words);
        core.tell_extension(object.word, &words);
    }

    /// Shows the experts an access of this client.
    async fn observe<E: Endpoint>(
        &mut self,
        core: &Core<E>,
        object: &Accessed<'_>,
        now_us: u64,
    ) -> Result<(), CacheError> {
        if self.experts.observe(object.hash.whole, object.bytes, now_us) {
            Box::pin(self.merge_weights(core)).await?;
        }
        Ok(())
    }

    /// The words beside the candidates' objects, READ as many at once as a batch has verbs. There
    /// are none if the experts keep none.
    async fn extensions<E: Endpoint>(
        &self,
        core: &Core<E>,
        candidates: &[Candidate],
    ) -> Result<Vec<Words>, CacheError> {
        let words = self.experts.set().extension_words();
        if words == 0 {
            return Ok(Vec::new());
        }
        let mut all = Vec::with_capacity(candidates.len());
        // Two full buckets have more candidates than a batch has verbs.
        for candidates in candidates.chunks(core.client.endpoint.limits().batch_verbs_max) {
            let mut batch = Batch::new();
            let ticket =
                |candidate: &Candidate| Some(batch.read(core.block_at(candidate.word)?, Buffer::sized(8 * words)));
            let tickets: ArrayVec<_, BATCH_VERBS_MAX> = candidates.iter().map(ticket).collect();
            core.client.endpoint.post(&mut batch).await?;
            all.extend(tickets.into_iter().map(|ticket| match ticket {
                Some(ticket) => batch.take(ticket).words().iter().copied().collect(),
                None => std::iter::repeat_n(0, words).collect(),
            }));
        }
        Ok(all)
    }
}

impl<E: Endpoint, T: Technique> Replacement<E> for Adaptive<T> {
    fn sampling(&self) -> Sampling {
        self.technique.sampling()
    }

    fn sample_buckets(&self) -> usize {
        self.settings.sample_buckets
    }

    fn remembered(&self) -> &[(u64, Slot)] {
        &self.remembered
    }

    fn new(shared: &TablePool, endpoint: &E) -> Result<Self, PoolError> {
        let settings = DittoOptions::decode(&shared.settings)?;
        let experts = Experts::new(settings.experts, settings.learning, shared.objects_expected());
        let threshold = if endpoint.is_near() { 1 } else { settings.counter_threshold };
        let counters = Counters::new(settings.counters, threshold, settings.counter_age_us);
        let history = settings.history_evictions(shared.objects_expected());
        let globals = std::iter::repeat_n(0, settings.experts.len()).collect();
        let remembers = endpoint.is_near() && settings.remembers;
        let settings = DittoOptions { remembers, ..settings };
        Ok(Self {
            settings,
            experts,
            history,
            counters,
            globals,
            unpublished: false,
            remembered: ArrayVec::new(),
            technique: T::default(),
        })
    }

    async fn accessed(&mut self, core: &Core<E>, object: Accessed<'_>) -> Result<(), CacheError> {
        let now_us = core.client.about_us();
        let before = core.client.endpoint.purpose(Purpose::Hotness);
        let mut batch = Batch::new();
        let layout = &core.shared.layout;
        batch.write_word(layout.last_access(object.slot), access::last_access_word(now_us, object.hash.mark));
        if let Some(accesses) = self.counters.count(object.slot, now_us) {
            batch.fetch_and_add(layout.access(object.slot), accesses.into());
        }
        core.client.endpoint.post_unawaited(&mut batch);
        if let Some(information) = object.information {
            let before = Self::object(&Access::decode(information, now_us));
            let after = before.accessed_again(now_us);
            let access = policy::Access { now_us, before: Some(&before), after: &after, ghost: None };
            self.publish_extension(core, &object, &access);
        }
        while let Some((slot, accesses)) = self.counters.due(now_us) {
            Counters::publish(core, slot, accesses);
        }
        core.client.endpoint.purpose(before);
        self.observe(core, &object, now_us).await
    }

    async fn inserted(&mut self, core: &Core<E>, inserted: Inserted<'_>) -> Result<(), CacheError> {
        let Inserted { object, before, .. } = inserted;
        let now_us = core.client.about_us();
        // The count of the slot's last object does not apply to the new one.
        self.counters.forget(object.slot);
        let purpose = core.client.endpoint.purpose(Purpose::Hotness);
        let ghost = before.history_of(object.hash).and_then(|(experts, id)| {
            let counter = id.wrapping_add(core.history_age(id));
            Ghost::live(experts, counter, id, self.history)
        });
        // The papers' experts count an insertion as one access, also of a returning key.
        let frequency =
            if self.settings.learning.miniature_objects > 0 { self.experts.frequency_at_insertion(ghost) } else { 1 };
        // As if the counter had been so much lower.
        let words = inserted.information(now_us, frequency.saturating_sub(1));
        self.technique.tell_insertion(core, object.slot, words);
        let bytes = object.bytes.max(1);
        let after = policy::Object { inserted_us: now_us, accessed_us: now_us, frequency, bytes };
        let access = policy::Access { now_us, before: None, after: &after, ghost };
        self.publish_extension(core, &object, &access);
        core.client.endpoint.purpose(purpose);
        if let Some(ghost) = ghost
            && self.technique.consume_entry(core, before).await?
            && (self.experts.regret(ghost) || self.technique.tells_each_regret())
        {
            Box::pin(self.merge_weights(core)).await?;
        }
        self.observe(core, &object, now_us).await
    }

    async fn choose(&mut self, core: &Core<E>, candidates: &[Candidate]) -> Result<Option<Victim>, CacheError> {
        let now_us = core.client.about_us();
        self.technique.begin_choice(core, &mut self.experts).await?;
        let extensions = self.extensions(core, candidates).await?;
        let extension = |place: usize| extensions.get(place).map_or(&[][..], Words::as_slice);
        let object = |(place, candidate): (usize, &Candidate)| experts::Candidate {
            object: Self::object(&candidate.access),
            extension: extension(place),
        };
        let objects: ArrayVec<_, CANDIDATES_MAX> = candidates.iter().enumerate().map(object).collect();
        let random = core.client.endpoint.random();
        let ranked = self.experts.choose_and_rank::<REMEMBERED_MAX>(now_us, &objects, random);
        let Some((choice, next)) = ranked else { return Ok(None) };
        let chosen = &candidates[choice.victim];
        self.remembered.clear();
        if self.settings.remembers {
            self.remembered.extend(next.iter().map(|place| (candidates[*place].slot, candidates[*place].word)));
        }
        if self.settings.experts.has_globals() {
            let known = self.globals.clone();
            self.experts.set().evicted(&mut self.globals, extension(choice.victim));
            self.unpublished |= known != self.globals;
        }
        // The borrow must not be held across an await.
        drop(objects);
        drop(extensions);
        let then = match chosen.hash {
            Some(hash) => {
                let id = core.history_id().await?;
                self.experts.evicted(id);
                let entry = Slot::history(hash, choice.experts, id);
                self.technique.record_entry(core, chosen.slot, entry).await?;
                entry
            }
            None => Slot::EMPTY,
        };
        Ok(Some(Victim { slot: chosen.slot, word: chosen.word, then }))
    }

    async fn round(&mut self, core: &Core<E>) -> Result<(), CacheError> {
        {
            let _scope = Scope::new(&core.client.endpoint, Purpose::Hotness);
            for (slot, accesses) in self.counters.drain_aged(core.client.about_us()) {
                Counters::publish(core, slot, accesses);
            }
        }
        if self.settings.experts.has_globals() {
            Box::pin(self.merge_globals(core)).await?;
        }
        Ok(())
    }
}
