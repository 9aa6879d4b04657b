//! The engines, as users of the lab name them.
//!
//! | name | engine |
//! |---|---|
//! | one that a descriptor knows | an engine in a pool of shared memory: `forge`, `ditto:lru+lfu`, `kvs`, ... |
//! | `reference:lru` | an exact policy in ordinary memory; `fifo`, `lru` and `s3-fifo` need no `reference:` |
//! | `sampled:lru+lfu` | policies, or experts, from samples of a hash table in ordinary memory |

use crate::reference::PolicyName;
use atoll_baselines::engines;
use atoll_cache::engines::{self as served, EngineChoices, EngineKind, KindVisitor};
use atoll_cache::experts::{ExpertSet, ExpertSetError};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// An engine, as users name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineName {
    /// An engine in a pool of shared memory.
    Pooled(PooledName),
    /// An exact policy in ordinary memory, for comparison.
    Reference(PolicyName),
    /// Experts that see samples of a table, in ordinary memory.
    Sampled(ExpertSet),
}

/// A name that one of the descriptors knows, as the descriptor itself writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PooledName(String);

impl PooledName {
    /// The choices that the name stands for, if it is the name of this kind of engine.
    pub(crate) fn options<K: EngineKind>(&self) -> Option<K::Options> {
        K::Options::named(&self.0).and_then(Result::ok)
    }

    fn find(name: &str) -> Option<Result<Self, String>> {
        struct Named<'n>(&'n str);
        impl KindVisitor for Named<'_> {
            type Output = Result<PooledName, String>;

            fn visit<K: EngineKind + 'static>(&mut self) -> Option<Self::Output> {
                Some(K::Options::named(self.0)?.map(|options| PooledName(options.name())))
            }
        }
        engines::visit(&mut Named(name))
    }
}

impl EngineName {
    /// Whether programs can open its pools.
    pub fn is_served(&self) -> bool {
        struct Served<'n>(&'n PooledName);
        impl KindVisitor for Served<'_> {
            type Output = ();

            fn visit<K: EngineKind + 'static>(&mut self) -> Option<()> {
                self.0.options::<K>().map(drop)
            }
        }
        matches!(self, Self::Pooled(name) if served::visit(&mut Served(name)).is_some())
    }
}

/// The names that all descriptors know, for people.
fn pooled_names() -> String {
    struct All(Vec<&'static str>);
    impl KindVisitor for All {
        type Output = std::convert::Infallible;

        fn visit<K: EngineKind + 'static>(&mut self) -> Option<Self::Output> {
            self.0.extend(K::Options::ENGINE.forms.iter().map(|form| form.name));
            None
        }
    }
    let mut all = All(Vec::new());
    engines::visit(&mut all);
    all.0.join(", ")
}

impl Default for EngineName {
    /// The engine that is shipped.
    fn default() -> Self {
        "forge".parse().expect("it is in the list")
    }
}

/// Policies that are used so often that they need no `reference:`.
const SHORT: [PolicyName; 3] = [PolicyName::Fifo, PolicyName::Lru, PolicyName::S3Fifo];

impl fmt::Display for EngineName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pooled(name) => f.write_str(&name.0),
            Self::Reference(policy) if SHORT.contains(policy) => write!(f, "{policy}"),
            Self::Reference(policy) => write!(f, "reference:{policy}"),
            Self::Sampled(set) => write!(f, "sampled:{set}"),
        }
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if let Some(pooled) = PooledName::find(name) {
            return pooled.map(Self::Pooled);
        }
        match name.split_once(':') {
            Some(("reference", policy)) => return Ok(Self::Reference(policy.parse()?)),
            Some(("sampled", set)) => {
                return set.parse().map(Self::Sampled).map_err(|error: ExpertSetError| error.to_string());
            }
            _ => {}
        }
        let short = name.parse().ok().filter(|policy| SHORT.contains(policy));
        short.map(Self::Reference).ok_or_else(|| {
            let pooled = pooled_names();
            format!(
                "there is no engine {name:?}; there are {pooled}, fifo, lru, s3-fifo, reference:POLICY and sampled:POLICY+POLICY"
            )
        })
    }
}

impl Serialize for EngineName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EngineName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}
