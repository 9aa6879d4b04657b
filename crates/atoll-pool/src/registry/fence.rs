//! How dead or stalled clients are shut out.

use super::place::{Place, PlaceState};
use super::places::all_places;
use crate::Pool;
use crate::words::swap;
use atoll_fabric::{Address, Batch, Endpoint, Identity, VerbError};
use std::collections::HashMap;

/// Makes the place of a client Fenced if the client is dead; returns whether this caller did. It
/// harms no living client.
pub async fn fence_dead<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    let is_gone = place.state.is_alive() && endpoint.is_dead(place.identity).await?;
    if is_gone { declare_dead(endpoint, pool, place).await } else { Ok(false) }
}

/// The same for a client whose lease stood still, which the fabric may shut out by force.
pub async fn fence_suspect<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    let is_gone = place.state.is_alive() && endpoint.shut_out(place.identity).await?;
    if is_gone { declare_dead(endpoint, pool, place).await } else { Ok(false) }
}

/// Makes the place of a living client Fenced. The caller knows that this client will never write
/// again.
pub async fn declare_dead<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    assert!(place.state.is_alive(), "a client dies once: {place:?}");
    if place.state == PlaceState::Taken {
        count_death(endpoint, pool.layout.deaths()).await?;
    }
    let (signal, epoch) = (pool.layout.signal(place.incarnation.slot), place.incarnation.epoch);
    swap(endpoint, signal, place.signal, PlaceState::Fenced.word(Identity::NOBODY, epoch)).await
}

/// Counts a death, before the place is Fenced. A death that is counted twice costs a needless count
/// of everything. A death that is not counted leaves the counts wrong.
pub(crate) async fn count_death<E: Endpoint>(endpoint: &E, deaths: Address) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.fetch_and_add(deaths, 1);
    endpoint.post(&mut batch).await
}

/// Makes the places of clients Fenced that stand still for `ns` from now on, as far as the fabric
/// shuts them out, except that of the place `but`. Returns how many.
pub async fn fence_still<E: Endpoint>(endpoint: &E, pool: &Pool, ns: u64, but: u32) -> Result<u64, VerbError> {
    let before = all_places(endpoint, pool).await?;
    endpoint.pause(ns).await;
    let mut fenced = 0;
    for (before, place) in before.iter().zip(all_places(endpoint, pool).await?) {
        if *before == place && place.incarnation.slot != but {
            fenced += u64::from(fence_suspect(endpoint, pool, &place).await?);
        }
    }
    Ok(fenced)
}

/// Frees a Fenced place whose client owns nothing any more; returns whether it did.
pub async fn free<E: Endpoint>(endpoint: &E, pool: &Pool, place: &Place) -> Result<bool, VerbError> {
    assert_eq!(place.state, PlaceState::Fenced, "only a client that was shut out loses its place");
    let (signal, epoch) = (pool.layout.signal(place.incarnation.slot), place.incarnation.epoch);
    swap(endpoint, signal, place.signal, PlaceState::Free.word(Identity::NOBODY, epoch)).await
}

/// The clients that one READ of the registry found alive, for owners that were READ before.
#[derive(Clone, Debug, Default)]
pub struct Roll {
    /// Low 16 bits of the epoch, by place.
    alive: HashMap<u32, u16>,
}

impl Roll {
    /// READs which clients are alive.
    pub fn of(places: &[Place]) -> Self {
        let alive = places.iter().filter(|place| place.state.is_alive());
        Self { alive: alive.map(|place| (place.incarnation.slot, place.incarnation.epoch as u16)).collect() }
    }

    /// Whether the owner that a word names (with the low bits of its epoch) is alive.
    pub fn has(&self, slot: u32, epoch: u16) -> bool {
        self.alive.get(&slot) == Some(&epoch)
    }
}
