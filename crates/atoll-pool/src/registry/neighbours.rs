//! The few clients that a client monitors, however many clients there are.
//!
//! Places form a ring. A client monitors the next few living clients after its own place, and the
//! dead ones between them. So a few clients monitor each client, also after its death. The READs
//! for this do not depend on the number of clients.
//!
//! | READ at each look, of the places after its own | so that |
//! |---|---|
//! | the monitored ones | a client that stands still is found |
//! | a few more, in turn, up to the last monitored one | new clients are found |
//! | all, for a while after a client was shut out | many clients that died at once are found at once: the threads of a process have neighbouring places |

use super::place::{Place, PlaceState};
use std::ops::Range;

/// How many places a client READs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Places of living clients that it monitors.
    pub watched: u32,
    /// Further places that it READs each time.
    pub walked: u32,
}

impl Default for Reach {
    fn default() -> Self {
        Self { watched: 4, walked: 8 }
    }
}

/// The places that a client monitors.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    reach: Reach,
    /// The monitored places, the nearest first, and whether their clients live: a dead client
    /// monitors none.
    watched: Vec<(u32, bool)>,
    /// The distance of the next further place that it READs.
    walk: u32,
    /// Until when it READs all places.
    thorough_until_ns: u64,
}

impl Neighbours {
    pub(crate) fn set_reach(&mut self, reach: Reach) {
        debug_assert!(reach.watched > 0 && reach.walked > 0, "a client looks after somebody");
        self.reach = reach;
    }

    /// READs all places until that time.
    pub(crate) fn be_thorough(&mut self, until_ns: u64) {
        self.thorough_until_ns = until_ns;
    }

    /// The places to READ now, of `count` that were ever occupied.
    pub(crate) fn next_look(&mut self, me: u32, count: u32, now_ns: u64) -> Vec<Range<u32>> {
        let Reach { watched, walked } = self.reach;
        if count <= 1 + watched + walked || now_ns < self.thorough_until_ns {
            return std::iter::once(0..count).collect();
        }
        let living = self.watched.iter().filter(|(_, is_alive)| *is_alive).count();
        let is_full = living >= watched as usize;
        let last = self.watched.last().filter(|_| is_full).map_or(count - 1, |(last, _)| behind(me, *last, count));
        let mut slots: Vec<u32> = self.watched.iter().map(|(slot, _)| *slot).collect();
        for _ in 0..walked.min(last) {
            self.walk = if self.walk < last { self.walk + 1 } else { 1 };
            slots.push(((u64::from(me) + u64::from(self.walk)) % u64::from(count)) as u32);
        }
        slots.sort_unstable();
        slots.dedup();
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for slot in slots {
            match ranges.last_mut() {
                Some(range) if range.end == slot => range.end += 1,
                _ => ranges.push(slot..slot + 1),
            }
        }
        ranges
    }

    /// Notes the result of a READ of some places.
    pub(crate) fn note(&mut self, me: u32, count: u32, seen: &[Place]) {
        for place in seen.iter().filter(|place| place.incarnation.slot != me) {
            let slot = place.incarnation.slot;
            self.watched.retain(|(watched, _)| *watched != slot);
            if place.state != PlaceState::Free {
                self.watched.push((slot, place.state.is_alive()));
            }
        }
        self.watched.sort_unstable_by_key(|(slot, _)| behind(me, *slot, count));
        let mut left = self.reach.watched;
        self.watched.retain(|(_, is_alive)| {
            let is_near = left > 0;
            left = left.saturating_sub(u32::from(*is_alive));
            is_near
        });
    }
}

/// The distance of a place from `me`, of `count` places. A damaged pool may claim a smaller
/// `count`.
fn behind(me: u32, slot: u32, count: u32) -> u32 {
    if slot >= me { slot - me } else { slot.saturating_add(count).saturating_sub(me) }
}

#[cfg(test)]
mod tests {
    use super::super::place::Incarnation;
    use super::*;
    use atoll_fabric::Identity;

    fn place(slot: u32, state: PlaceState) -> Place {
        let incarnation = Incarnation { slot, epoch: 1 };
        Place { incarnation, state, lease: 0, signal: 0, identity: Identity::NOBODY }
    }

    /// READs until nothing new is found; returns how many places each look had.
    fn look(neighbours: &mut Neighbours, me: u32, states: &[PlaceState]) -> usize {
        let count = states.len() as u32;
        let mut most = 0;
        for _ in 0..count {
            let ranges = neighbours.next_look(me, count, 0);
            let seen: Vec<_> = ranges.into_iter().flatten().map(|slot| place(slot, states[slot as usize])).collect();
            most = most.max(seen.len());
            neighbours.note(me, count, &seen);
        }
        most
    }

    #[test]
    fn a_client_comes_to_look_after_the_next_ones_behind_it_wherever_they_are() {
        let reach = Reach { watched: 2, walked: 3 };
        for me in [0, 1, 50, 99] {
            let mut states = vec![PlaceState::Free; 100];
            let mut neighbours = Neighbours { reach, ..Neighbours::default() };
            assert!(look(&mut neighbours, me, &states) <= 5);
            assert_eq!(neighbours.watched, []);
            let at = |distance: u32| (me + distance) % 100;
            for distance in [90, 40, 30] {
                states[at(distance) as usize] = PlaceState::Taken;
            }
            assert!(look(&mut neighbours, me, &states) <= 5);
            let watched =
                |neighbours: &Neighbours| neighbours.watched.iter().map(|(slot, _)| *slot).collect::<Vec<_>>();
            assert_eq!(watched(&neighbours), [at(30), at(40)]);
            // A nearer client joins, and another client leaves.
            states[at(7) as usize] = PlaceState::Joining;
            states[at(30) as usize] = PlaceState::Free;
            look(&mut neighbours, me, &states);
            assert_eq!(watched(&neighbours), [at(7), at(40)]);
            states[at(7) as usize] = PlaceState::Free;
            look(&mut neighbours, me, &states);
            assert_eq!(watched(&neighbours), [at(40), at(90)]);
            // A dead client is monitored in addition: it does not monitor the clients after it.
            states[at(60) as usize] = PlaceState::Fenced;
            look(&mut neighbours, me, &states);
            assert_eq!(watched(&neighbours), [at(40), at(60), at(90)]);
        }
    }

    #[test]
    fn few_places_are_looked_at_all_and_many_after_one_was_shut_out() {
        let mut neighbours = Neighbours::default();
        let all = 1 + neighbours.reach.watched + neighbours.reach.walked;
        let mut looked_at = |thorough_ns, count, now_ns| {
            neighbours.be_thorough(thorough_ns);
            neighbours.next_look(3, count, now_ns).iter().map(|range| range.len() as u32).sum::<u32>()
        };
        assert_eq!(looked_at(0, all, 0), all);
        assert!(looked_at(0, all + 1, 0) < all);
        assert_eq!(looked_at(100, 1000, 99), 1000);
        assert!(looked_at(100, 1000, 100) < all);
    }

    #[test]
    fn a_count_of_places_that_cannot_be_harms_nobody() {
        let mut neighbours = Neighbours::default();
        look(&mut neighbours, 50, &[PlaceState::Taken; 100]);
        assert_eq!(neighbours.watched.len(), 4);
        for count in [0, 1, 20, u32::MAX] {
            neighbours.next_look(50, count, 0);
            neighbours.note(50, count, &[place(3, PlaceState::Taken)]);
        }
    }
}
