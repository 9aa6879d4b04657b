//! What users choose of an engine for a new pool.

use crate::experts::ExpertSet;
use atoll_pool::PoolSettings;
use std::fmt;

/// How users and the pool header name an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineIdentity {
    /// Its name, as users write it.
    pub name: &'static str,
    /// Its forms. Their names are among those that [`EngineChoices::named`] knows.
    pub forms: &'static [Described],
    /// What else users choose. Each name is one that [`EngineChoices::choose`] knows.
    pub options: &'static [EngineOption],
    /// Its number in the pool header.
    pub number: u64,
}

/// A name, and what it stands for in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Described {
    /// The name, as users write it.
    pub name: &'static str,
    /// What it stands for.
    pub what: &'static str,
}

/// Something that users choose of one engine, such as `experts`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOption {
    /// The name, as users write it behind two hyphens, and its meaning.
    pub described: Described,
    /// What users write as its value, or `None` if it has none.
    pub value: Option<&'static str>,
}

/// How large a new pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSize {
    /// The expected size of an object with its key, by which the index is sized. `None` keeps the
    /// engine's own expectation.
    pub body_bytes_mean: Option<u32>,
    /// Bytes of the new pool.
    pub capacity_bytes: u64,
    /// Bytes that may be added later.
    pub growth_bytes_max: u64,
}

/// What a user chooses of an engine for a new pool.
pub trait EngineChoices: Clone + fmt::Debug + PartialEq {
    /// The engine.
    const ENGINE: EngineIdentity;

    /// The choices of a new pool by a name that a user writes, such as `ditto:lru+lfu`. `None` if
    /// the name is another engine's; an error if its choices make no sense.
    fn named(name: &str) -> Option<Result<Self, String>>;

    /// The name that stands for these choices.
    fn name(&self) -> String {
        Self::ENGINE.name.to_owned()
    }

    /// Chooses one of the engine's options. `value` is empty if the option has none. An error says
    /// what values there are.
    fn choose(&mut self, option: &str, value: &str) -> Result<(), String> {
        let _ = value;
        Err(format!("{} has no option {option}", Self::ENGINE.name))
    }

    /// The policies that choose victims, if the engine has experts.
    fn experts(&self) -> Option<ExpertSet> {
        None
    }

    /// Settings for a pool of this size.
    fn of_size(&self, size: PoolSize) -> PoolSettings;

    /// Settings for a pool of at most so many objects with records of up to `record_bytes`, for
    /// experiments that count objects.
    fn of_objects(&self, objects_max: u64, clients_max: u32, record_bytes: u32) -> PoolSettings;
}
