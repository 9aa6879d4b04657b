//! Changes, decided at the client and done by the server.
//!
//! | the change | the client | round trips |
//! |---|---|---|
//! | [is blind](atoll_cache::Change::is_blind) | requests it on any version, and shows the change the replaced object | 1 |
//! | depends on the present object | READs it, lets the change decide, and requests the change of that version; if the version is gone, again | 3 |

use super::Session;
use super::lookup::Found;
use super::record::Header;
use super::wire::{self, Condition, Operation, Outcome};
use atoll_cache::{CacheError, Change, Meta, Old, Value, Verdict};
use atoll_fabric::{Endpoint, Messenger};

/// The request that a verdict needs; `None` for nothing.
fn asked(verdict: Verdict) -> Option<(Operation, Option<u64>)> {
    match verdict {
        Verdict::Leave => None,
        Verdict::Remove => Some((Operation::Remove, None)),
        Verdict::Put { expiry_ms, .. } => Some((Operation::Put, expiry_ms)),
        Verdict::Expire { expiry_ms } => Some((Operation::Expire, expiry_ms)),
    }
}

impl<E: Endpoint + Messenger> Session<E> {
    /// Changes `key`'s object; returns the token of the object that is there afterwards, if there
    /// is one.
    pub(super) async fn apply<C: Change>(&mut self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        if change.is_blind() {
            return self.apply_blindly(key, change).await;
        }
        let mut old = std::mem::take(&mut self.old);
        let applied = self.apply_to(key, change, &mut old).await;
        self.old = old;
        applied
    }

    async fn apply_blindly<C: Change>(&mut self, key: &[u8], change: &mut C) -> Result<Option<u64>, CacheError> {
        let now_ms = self.pool_ms().await?;
        let Some((operation, expiry_ms)) = asked(change.decide(now_ms, None)) else { return Ok(None) };
        let answer = self.ask(operation, Condition::Any, expiry_ms, key, change.value()).await?;
        let meta = match answer.before {
            Some(before) if !self.is_over(before.expiry_ms).await? => {
                let value_bytes = before.value_bytes as usize;
                Some(Meta { expiry_ms: before.expiry_ms, token: before.token, value_bytes, ..Meta::default() })
            }
            _ => None,
        };
        change.decide(now_ms, meta.map(|meta| Old { meta, value: &[] }));
        Ok((operation == Operation::Put).then_some(answer.token))
    }

    async fn apply_to<C: Change>(
        &mut self,
        key: &[u8],
        change: &mut C,
        old: &mut Value,
    ) -> Result<Option<u64>, CacheError> {
        let hash = self.shared.hasher.hash(key);
        loop {
            // The time is READ before the look. So an object that this change finds expired had
            // expired at a time that has come.
            let now_ms = self.pool_ms().await?;
            let live = match self.look_for_live(hash, key, old).await? {
                Found::Live(header) => Some(header),
                Found::Absent | Found::Expired => None,
            };
            let shown = live.map(|_| Old { meta: old.meta(), value: old.bytes() });
            let Some((operation, expiry_ms)) = asked(change.decide(now_ms, shown)) else {
                return Ok(live.map(|header| header.token));
            };
            let condition = live.map_or(Condition::Absent, |Header { version, .. }| Condition::Version(version));
            if (operation, condition) == (Operation::Remove, Condition::Absent) {
                return Ok(None);
            }
            let value = if operation == Operation::Put { change.value() } else { &[] };
            let answer = self.ask(operation, condition, expiry_ms, key, value).await?;
            if answer.outcome == Outcome::Done {
                return Ok((operation != Operation::Remove).then_some(answer.token));
            }
            self.stats.conflicts.add(1);
        }
    }

    async fn ask(
        &mut self,
        operation: Operation,
        condition: Condition,
        expiry_ms: Option<u64>,
        key: &[u8],
        value: &[u8],
    ) -> Result<wire::Answer, CacheError> {
        let (key_bytes, value_bytes) = (key.len() as u32, value.len() as u32);
        let change = wire::Change { operation, condition, expiry_ms, key_bytes, value_bytes };
        let answer = self.request(&change, key, value).await?;
        if answer.outcome == Outcome::Done {
            match operation {
                Operation::Put => self.stats.puts.add(1),
                Operation::Remove => self.stats.removes.add(u64::from(answer.before.is_some())),
                Operation::Expire | Operation::Flush => {}
            }
        }
        Ok(answer)
    }
}
