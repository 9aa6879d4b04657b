//! How far memory is from a run's clients: what
//! [`Endpoint::is_near`](atoll_fabric::Endpoint::is_near) says.
//!
//! A protocol may choose another way where a round trip costs more than a look at its own memory.
//! Distance is a property of the case, and does not depend on whether time is counted. Otherwise
//! the ways for a network would only run where nothing can go wrong.

use crate::Random;

/// How far memory is from a run's clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Distance {
    /// One of the following, by the seed.
    #[default]
    FromSeed,
    /// Near every client, as on one host.
    Near,
    /// Far from every client, as over a network.
    Far,
    /// Near some clients and far from other clients, as where processes of the memory node's own
    /// host use the same pool.
    Mixed,
}

/// The stream of randomness that distances are drawn from. Its own, so that they change nothing
/// that chance decides elsewhere.
const STREAM: u64 = u64::MAX - 1;

/// What a run draws its endpoints' distances from.
pub(crate) struct Distances {
    distance: Distance,
    random: Random,
}

impl Distances {
    pub(crate) fn new(distance: Distance, seed: u64) -> Self {
        let mut random = Random::stream(seed, STREAM);
        let drawn = random.pick(&[Distance::Near, Distance::Far, Distance::Mixed]);
        Self { distance: if distance == Distance::FromSeed { drawn } else { distance }, random }
    }

    /// Whether memory is near the next endpoint.
    pub(crate) fn next_is_near(&mut self) -> bool {
        match self.distance {
            Distance::Near => true,
            Distance::Far => false,
            Distance::Mixed | Distance::FromSeed => self.random.chance(512),
        }
    }
}
