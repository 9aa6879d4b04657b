//! Words of a region, one verb each.

use atoll_fabric::{Address, Batch, Buffer, Endpoint, Ticket, VerbError};
use atoll_sim::{Fencing, Sim, SimEndpoint, SimOptions};

pub(super) fn word(index: u64) -> Address {
    Address::new(0, 0, 8 * index)
}

pub(super) fn simulation(seed: u64) -> Sim {
    Sim::new(SimOptions::new(seed, 4096))
}

pub(super) fn forced(seed: u64) -> Sim {
    Sim::new(SimOptions { fencing: Fencing::Forced, ..SimOptions::new(seed, 4096) })
}

pub(super) async fn read(endpoint: &SimEndpoint, at: Address) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let ticket = batch.read_word(at);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(ticket))
}

pub(super) async fn write(endpoint: &SimEndpoint, at: Address, value: u64) -> Result<(), VerbError> {
    let mut batch = Batch::new();
    batch.write_word(at, value);
    endpoint.post(&mut batch).await
}

pub(super) async fn add(endpoint: &SimEndpoint, at: Address) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let ticket = batch.fetch_and_add(at, 1);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(ticket))
}

pub(super) async fn swap(endpoint: &SimEndpoint, at: Address, expected: u64, desired: u64) -> Result<u64, VerbError> {
    let mut batch = Batch::new();
    let ticket: Ticket = batch.compare_and_swap(at, expected, desired);
    endpoint.post(&mut batch).await?;
    Ok(batch.word(ticket))
}

/// Six words, then a word that says that they are there.
pub(super) async fn publish(endpoint: &SimEndpoint) -> Result<(), VerbError> {
    let (mut batch, mut object) = (Batch::new(), Buffer::new());
    object.resize(48);
    object.words_mut().fill(1);
    batch.write(word(8), object);
    batch.write_word(word(0), 1);
    endpoint.post(&mut batch).await
}
