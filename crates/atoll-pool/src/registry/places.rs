//! How the places of the registry are READ.

use super::place::{ACCOUNT_BYTES, Incarnation, ORIGIN_WORDS, Place, PlaceState, SIGNAL_BYTES, account_word, unsealed};
use crate::words::read_word;
use crate::{Layout, Pool};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, Identity, Origin, VerbError};
use std::ops::Range;

pub(crate) async fn members_ever<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<u64, VerbError> {
    Ok(read_word(endpoint, pool.layout.members_ever()).await?.min(pool.settings.clients_max.into()))
}

/// READs so many bytes of all places that were ever taken.
pub(super) async fn read_places<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    at: impl Fn(&Layout) -> Address,
    place_bytes: u64,
) -> Result<Buffer, VerbError> {
    let count = members_ever(endpoint, pool).await?;
    read_first_places(endpoint, pool, at, place_bytes, count).await
}

/// The same of the first so many places.
pub(super) async fn read_first_places<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    at: impl Fn(&Layout) -> Address,
    place_bytes: u64,
    count: u64,
) -> Result<Buffer, VerbError> {
    endpoint.read(at(&pool.layout), Buffer::sized((count * place_bytes) as usize)).await
}

/// All places that were ever taken.
pub async fn places<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<Place>, VerbError> {
    let count = members_ever(endpoint, pool).await?;
    first_places(endpoint, pool, count).await
}

/// All places, those that were never taken among them.
pub(super) async fn all_places<E: Endpoint>(endpoint: &E, pool: &Pool) -> Result<Vec<Place>, VerbError> {
    first_places(endpoint, pool, pool.settings.clients_max.into()).await
}

async fn first_places<E: Endpoint>(endpoint: &E, pool: &Pool, count: u64) -> Result<Vec<Place>, VerbError> {
    let signals = read_first_places(endpoint, pool, |layout| layout.signal(0), SIGNAL_BYTES, count).await?;
    Ok((0..).zip(signals.words().chunks(8)).map(|(slot, signal)| Place::of(slot, signal)).collect())
}

/// Some places, in ranges of them.
pub(crate) async fn some_places<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    ranges: &[Range<u32>],
) -> Result<Vec<Place>, VerbError> {
    let mut places = Vec::new();
    some_signals(endpoint, pool, ranges, |slot, signal| places.push(Place::of(slot, signal))).await?;
    Ok(places)
}

/// The signals of some places, in ranges of them.
pub(super) async fn some_signals<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    ranges: &[Range<u32>],
    mut see: impl FnMut(u32, &[u64]),
) -> Result<(), VerbError> {
    for ranges in ranges.chunks(atoll_fabric::BATCH_VERBS_MAX) {
        let mut batch = Batch::new();
        for range in ranges {
            batch.read(pool.layout.signal(range.start), Buffer::sized(range.len() * SIGNAL_BYTES as usize));
        }
        endpoint.post(&mut batch).await?;
        for (nth, range) in ranges.iter().enumerate() {
            let signals = batch.take_nth(nth);
            range.clone().zip(signals.words().chunks(8)).for_each(|(slot, signal)| see(slot, signal));
        }
    }
    Ok(())
}

/// The process of a place's client, as it calls itself, if that is written for this client.
pub async fn origin<E: Endpoint>(endpoint: &E, pool: &Pool, who: Incarnation) -> Result<Option<Origin>, VerbError> {
    let account = endpoint.read(pool.layout.account(who.slot), Buffer::sized(8 * ORIGIN_WORDS)).await?;
    Ok(unsealed(account.words(), who.epoch))
}

/// Whether a place's state and lease are what they were at a look.
pub async fn is_still<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    let (layout, slot) = (&pool.layout, place.incarnation.slot);
    let mut batch = Batch::new();
    let [state, lease] = [layout.signal(slot), layout.lease(slot)].map(|word| batch.read_word(word));
    endpoint.post(&mut batch).await?;
    Ok((batch.word(state), batch.word(lease)) == (place.signal, place.lease))
}

/// What living clients say of memory nodes.
#[derive(Debug, Default)]
pub(crate) struct NodeUsers {
    /// Nodes that one of them may use, a bit each.
    pub(crate) used: u64,
    /// Nodes without which one of them uses the pool.
    pub(crate) absent: u64,
}

/// READs what all living clients say of memory nodes, except that of the place `but`. A client that
/// joins behind this READs the table of nodes behind it.
pub(crate) async fn node_users<E: Endpoint>(endpoint: &E, pool: &Pool, but: u32) -> Result<NodeUsers, VerbError> {
    let mut all = NodeUsers::default();
    for (_, NodeUsers { used, absent }) in each_node_user(endpoint, pool, but).await? {
        (all.used, all.absent) = (all.used | used, all.absent | absent);
    }
    Ok(all)
}

/// Whether a client that has not [ended](Endpoint::has_ended) may use a memory node, other than
/// that of the place `but`.
pub(crate) async fn is_node_used<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    node: u8,
    but: u32,
) -> Result<bool, VerbError> {
    for (who, NodeUsers { used, .. }) in each_node_user(endpoint, pool, but).await? {
        if used >> node & 1 == 1 && !endpoint.has_ended(who).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn each_node_user<E: Endpoint>(
    endpoint: &E,
    pool: &Pool,
    but: u32,
) -> Result<Vec<(Identity, NodeUsers)>, VerbError> {
    let before = places(endpoint, pool).await?;
    let accounts =
        read_first_places(endpoint, pool, |layout| layout.account(0), ACCOUNT_BYTES, before.len() as u64).await?;
    let after = first_places(endpoint, pool, before.len() as u64).await?;
    let mut users = Vec::new();
    let accounts = accounts.words().chunks((ACCOUNT_BYTES / 8) as usize);
    for ((before, after), account) in before.iter().zip(&after).zip(accounts) {
        if before.incarnation.slot == but || !before.state.is_alive() && !after.state.is_alive() {
            continue;
        }
        // Words of the same client if its place has not changed meanwhile.
        let is_told = before.signal == after.signal && before.state == PlaceState::Taken;
        let word = |index: usize| if is_told { account[index] } else { u64::MAX };
        let used = NodeUsers { used: word(account_word::USED_NODES), absent: word(account_word::ABSENT_NODES) };
        users.push((if after.state.is_alive() { after.identity } else { before.identity }, used));
    }
    Ok(users)
}
