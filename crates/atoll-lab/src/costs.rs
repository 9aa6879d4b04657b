//! What the steps of a protocol cost this machine's processor, for the simulated clients of a timed
//! run.
//!
//! The steps are measured on the shared-memory fabric, where there is nothing but the processor.
//! The cost of a network is in its profile. Simulations use a committed table (`crates/atoll-
//! sim/profiles/cpu.toml`) and give the same digits everywhere. This command measures the table
//! anew. Each cost is the median of many rounds, since other work on the machine only makes a round
//! longer.

use crate::LabError;
use crate::output;
use atoll_fabric::shm::{ShmEndpoint, ShmRegion};
use atoll_fabric::{Address, Batch, Buffer, Endpoint, run_ready};
use atoll_sim::network::CpuCosts;
use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

const REGION_BYTES: u64 = 1 << 20;
/// Verbs of the larger of the two batches whose difference is the cost of a verb.
const VERBS: u64 = 17;
/// Bytes of the larger of the two READs whose difference is the cost of copying.
const COPIED_BYTES: usize = 8 * 1024;
const KEY_BYTES: usize = 16;
/// Times that a step is repeated in one round.
const REPEATS: u32 = 20_000;

/// Measure what the steps of a protocol cost this machine's processor, as the table that simulated
/// clients use
#[derive(Clone, Debug, clap::Args)]
pub struct CostsCommand {
    /// Rounds; costs are medians over them
    #[arg(long, default_value_t = 201, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl CostsCommand {
    /// Measures and prints the table.
    pub fn run(self) -> Result<(), LabError> {
        let costs = measure(self.rounds)?;
        output::print(self.json, &costs, render);
        Ok(())
    }
}

/// The table as the simulator reads it.
fn render(costs: &CpuCosts) -> String {
    let CpuCosts { poll_ps, batch_ps, verb_ps, completion_ps, copy_kib_ps, hash_ps } = costs;
    format!(
        "poll_ps = {poll_ps}\nbatch_ps = {batch_ps}\nverb_ps = {verb_ps}\ncompletion_ps = {completion_ps}\n\
         copy_kib_ps = {copy_kib_ps}\nhash_ps = {hash_ps}\n"
    )
}

/// Measures every step.
///
/// # Errors
/// If the memory cannot be had.
pub fn measure(rounds: u32) -> Result<CpuCosts, LabError> {
    let region = Arc::new(ShmRegion::anonymous(REGION_BYTES)?);
    let endpoint = ShmEndpoint::new(region);
    let median = |step: &mut dyn FnMut()| median_ps(rounds, step);
    let one = median(&mut || post(&endpoint, 1, false));
    let many = median(&mut || post(&endpoint, VERBS, false));
    let taken = median(&mut || post(&endpoint, VERBS, true));
    let verb_ps = many.saturating_sub(one) / (VERBS - 1);
    let mut buffer = Buffer::new();
    let mut read = |bytes: usize| {
        median(&mut || {
            buffer.resize(bytes);
            let lent = std::mem::take(&mut buffer);
            buffer = run_ready(endpoint.read(black_box(Address::new(0, 0, 0)), lent)).expect("the region has it");
        })
    };
    let (short, long) = (read(8), read(COPIED_BYTES));
    Ok(CpuCosts {
        poll_ps: poll_ps(rounds),
        batch_ps: one.saturating_sub(verb_ps),
        verb_ps,
        completion_ps: taken.saturating_sub(many) / VERBS,
        copy_kib_ps: long.saturating_sub(short) * 1024 / (COPIED_BYTES as u64 - 8),
        hash_ps: hash_ps(rounds),
    })
}

/// A batch of words to READ, and their results if they are asked for.
#[inline(never)]
fn post(endpoint: &ShmEndpoint, verbs: u64, takes: bool) {
    let mut batch = Batch::new();
    let mut tickets = [None; VERBS as usize];
    for verb in 0..verbs {
        tickets[verb as usize] = Some(batch.read_word(Address::new(0, 0, 8 * black_box(verb))));
    }
    run_ready(endpoint.post(&mut batch)).expect("the region has all words");
    if takes {
        for ticket in tickets.iter().flatten() {
            black_box(batch.word(*ticket));
        }
    }
}

/// Polling a task that waits, through a pointer as executors do.
fn poll_ps(rounds: u32) -> u64 {
    let mut task: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async {
        std::future::poll_fn(|context| {
            black_box(context.waker().will_wake(Waker::noop()));
            Poll::<()>::Pending
        })
        .await;
    });
    let mut context = Context::from_waker(Waker::noop());
    median_ps(rounds, &mut || {
        black_box(black_box(&mut task).as_mut().poll(&mut context).is_ready());
    })
}

/// The engine's hash of a key.
fn hash_ps(rounds: u32) -> u64 {
    let secrets = RapidSecrets::seed(1);
    let mut key = [7_u8; KEY_BYTES];
    median_ps(rounds, &mut || {
        // Each hash waits for the one before it, as a lookup waits for its hash.
        let hash = rapidhash_v3_inline::<true, false, false>(black_box(&key), &secrets);
        key[..8].copy_from_slice(&hash.to_le_bytes());
    })
}

/// The median over rounds of what one `step` takes, in picoseconds.
fn median_ps(rounds: u32, step: &mut dyn FnMut()) -> u64 {
    let mut round = || {
        let begin = Instant::now();
        (0..REPEATS).for_each(|_| step());
        begin.elapsed().as_nanos() as u64 * 1000 / u64::from(REPEATS)
    };
    let mut taken: Vec<u64> = (0..rounds).map(|_| round()).collect();
    taken.sort_unstable();
    // The call of a step is in all of them; it is a nanosecond, and part of every cost here.
    taken[taken.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_cost_and_the_table_is_what_the_simulator_reads() {
        let costs = measure(5).unwrap();
        // The others are differences, and five rounds on a busy machine prove nothing about those.
        assert!(costs.poll_ps > 0 && costs.hash_ps > 0, "{costs:?}");
        let fields = serde_json::to_value(costs).unwrap();
        for (name, ps) in fields.as_object().unwrap() {
            assert!(render(&costs).contains(&format!("{name} = {ps}\n")), "{name}");
        }
    }
}
