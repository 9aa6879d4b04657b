//! Which clients stand still, and whose operations have ended.

use super::place::{Incarnation, Place, PlaceState};
use super::places::places;
use crate::Pool;
use crate::in_flight::{InFlight, Moment};
use atoll_fabric::{Endpoint, VerbError};
use std::collections::HashMap;

/// Which clients stand still: one observer's memory of leases.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// By place: the lease that was seen, and since when on the observer's clock.
    seen: HashMap<u32, (u64, u64, u64)>,
}

impl Watch {
    /// For how long `place` has stood still, as this observer saw it. Its READ began at `asked_ns`
    /// and ended at `told_ns`.
    ///
    /// A word that changed is counted as new at `told_ns`. A word that did not change stood still
    /// until `asked_ns` at least. Otherwise a slow READ of an observer would shut out a client that
    /// makes its rounds.
    pub fn still_ns(&mut self, place: &Place, asked_ns: u64, told_ns: u64) -> u64 {
        let (state, lease) = (place.signal, place.lease);
        let seen = self.seen.entry(place.incarnation.slot).or_insert((state, lease, told_ns));
        if (seen.0, seen.1) != (state, lease) {
            *seen = (state, lease, told_ns);
        }
        asked_ns.saturating_sub(seen.2)
    }
}

/// A client, as far as it watches other clients.
#[derive(Debug)]
pub struct Observer<'c, E> {
    /// Its endpoint.
    pub endpoint: &'c E,
    /// The pool.
    pub pool: &'c Pool,
    /// Its incarnation.
    pub me: Incarnation,
    /// Its own operations.
    pub in_flight: &'c InFlight,
}

/// Waits for the operations of all other clients that run when it begins.
///
/// A client announces by its rounds which operations have ended
/// ([`InFlight`](crate::in_flight::InFlight)), or that it is at rest. Its older operations have
/// ended once it has rested, has made enough rounds, or is dead or has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grace {
    /// The moment of the beginning, in the eras of the waiting client.
    own: Moment,
    unseen: Vec<(Incarnation, u64)>,
}

impl Grace {
    /// Begins now. An operation that stands aside must not continue with words that it READ before.
    pub async fn begin<E: Endpoint>(client: &Observer<'_, E>) -> Result<Self, VerbError> {
        let (me, own) = (client.me, client.in_flight.moment());
        let places = places(client.endpoint, client.pool).await?.into_iter();
        let others = places.filter(|place| place.state == PlaceState::Taken && place.incarnation.slot != me.slot);
        let busy = others.filter(|place| !place.is_at_rest());
        Ok(Self { own, unseen: busy.map(|place| (place.incarnation, place.lease)).collect() })
    }

    /// Whether all those operations have ended since.
    pub async fn is_over<E: Endpoint>(&mut self, client: &Observer<'_, E>) -> Result<bool, VerbError> {
        if !self.unseen.is_empty() {
            let places = places(client.endpoint, client.pool).await?;
            let is_busy = |who: Incarnation, lease: u64| {
                let same = |place: &&Place| place.state == PlaceState::Taken && place.incarnation == who;
                places.iter().find(same).is_some_and(|place| !place.has_ended_since(lease))
            };
            self.unseen.retain(|(who, lease)| is_busy(*who, *lease));
        }
        Ok(self.unseen.is_empty() && client.in_flight.have_ended(self.own))
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::ROUNDS_SHIFT;
    use super::*;
    use atoll_fabric::Identity;

    fn place(state: PlaceState, epoch: u32, rounds: u64) -> Place {
        let incarnation = Incarnation { slot: 3, epoch };
        let identity = if state.is_alive() { Identity::from_bits(7) } else { Identity::NOBODY };
        let signal = state.word(identity, epoch);
        Place { incarnation, state, lease: rounds << ROUNDS_SHIFT, signal, identity }
    }

    /// If the fabric shuts clients out by force, a client that seems to stand still is shut out.
    #[test]
    fn a_client_that_makes_its_rounds_never_stands_still() {
        let mut watch = Watch::default();
        for round in 0..10 {
            let seen_ns = 1_000 * round;
            assert_eq!(watch.still_ns(&place(PlaceState::Taken, 1, round), seen_ns, seen_ns), 0);
            assert_eq!(watch.still_ns(&place(PlaceState::Taken, 1, round), seen_ns + 900, seen_ns + 950), 900);
        }
        assert_eq!(watch.still_ns(&place(PlaceState::Taken, 1, 9), 20_000, 20_000), 11_000);
        // A slow READ proves only that the client stood still until the READ began.
        assert_eq!(watch.still_ns(&place(PlaceState::Taken, 1, 9), 20_000, 90_000), 11_000);
        // The time for which the last client of the place stood still does not count for the next
        // one.
        assert_eq!(watch.still_ns(&place(PlaceState::Taken, 2, 9), 20_000, 20_000), 0);
        assert_eq!(watch.still_ns(&place(PlaceState::Fenced, 2, 9), 20_500, 20_500), 0);
    }
}
