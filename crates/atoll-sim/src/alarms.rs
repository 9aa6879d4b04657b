//! When a task is woken because time has passed.
//!
//! A running pause has an *alarm* at its end. The alarm is unset when the pause is dropped. A task
//! that waits for a message or a time drops the pause when the message comes. A timer of the world
//! cannot be removed. So the world has *rings* and no alarms. At a ring it checks the alarms of a
//! lane:
//!
//! | what happens | then |
//! |---|---|
//! | an alarm is set, and no ring comes as early | one is asked for at its time |
//! | an alarm is unset | nothing: its ring comes in vain, or serves a later alarm |
//! | a ring comes, and an alarm is due | the alarm's waker is called: the task's, or that of a part of the task |
//! | a ring comes, an alarm is set for later, and no other ring comes as early | one is asked for at its time |
//!
//! Invariants:
//!
//! - For every alarm that is not due a ring comes at its time or before.
//! - Each ring of a lane is earlier than all rings that were asked for before and have not come.
//!
//! So a lane whose pauses have the same length has one ring to come, however many it has dropped.

use std::task::Waker;

/// The alarms of a lane.
#[derive(Debug, Default)]
pub(crate) struct Alarms {
    /// Those of pauses that are there. Hardly ever more than one.
    set: Vec<Alarm>,
    /// When rings come, the next one last.
    rings: Vec<u64>,
    made: u64,
}

#[derive(Debug)]
struct Alarm {
    number: u64,
    at_ns: u64,
    /// `None`: the task is its lane's.
    waker: Option<Waker>,
}

impl Alarms {
    /// Sets an alarm; gives its number, and whether a ring is to come at that time.
    pub(crate) fn set(&mut self, at_ns: u64) -> (u64, bool) {
        self.made += 1;
        self.set.push(Alarm { number: self.made, at_ns, waker: None });
        (self.made, self.asks_for(at_ns))
    }

    /// Whom an alarm wakes: its lane's task unless told otherwise.
    pub(crate) fn wakes(&mut self, number: u64, waker: Option<Waker>) {
        if let Some(alarm) = self.set.iter_mut().find(|alarm| alarm.number == number) {
            alarm.waker = waker;
        }
    }

    /// Unsets an alarm, whether it was due or not.
    pub(crate) fn unset(&mut self, number: u64) {
        self.set.retain(|alarm| alarm.number != number);
    }

    /// The next ring has come. Returns whether the lane's task is to be woken, and when one more
    /// ring is to come. Calls the other wakers of alarms that are due.
    pub(crate) fn ring(&mut self, now_ns: u64, mut woken: impl FnMut(&Waker)) -> (bool, Option<u64>) {
        let rung = self.rings.pop();
        debug_assert!(rung.is_some_and(|at_ns| at_ns <= now_ns), "a ring comes once, and not before its time");
        let mut is_due = false;
        for alarm in self.set.iter().filter(|alarm| alarm.at_ns <= now_ns) {
            match &alarm.waker {
                Some(waker) => woken(waker),
                None => is_due = true,
            }
        }
        let next = self.set.iter().map(|alarm| alarm.at_ns).filter(|at_ns| *at_ns > now_ns).min();
        (is_due, next.filter(|at_ns| self.asks_for(*at_ns)))
    }

    fn asks_for(&mut self, at_ns: u64) -> bool {
        let is_asked = self.rings.last().is_none_or(|next| at_ns < *next);
        if is_asked {
            self.rings.push(at_ns);
        }
        is_asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use std::collections::BTreeSet;

    fn none(_: &Waker) {
        unreachable!("all alarms are those of their lane's task");
    }

    #[test]
    fn an_alarm_with_a_waker_of_its_own_calls_that() {
        let mut alarms = Alarms::default();
        let ((first, _), (second, _)) = (alarms.set(10), alarms.set(10));
        alarms.wakes(second, Some(Waker::noop().clone()));
        let mut called = 0;
        assert_eq!(alarms.ring(10, |_| called += 1), (true, None));
        assert_eq!(called, 1);
        alarms.unset(first);
        alarms.set(20);
        alarms.wakes(3, Some(Waker::noop().clone()));
        assert_eq!(alarms.ring(20, |_| called += 1), (false, None));
        assert_eq!(called, 3, "one that is due stays so until it is unset");
    }

    #[test]
    fn a_pause_that_is_dropped_for_the_next_one_asks_for_nothing() {
        let mut alarms = Alarms::default();
        assert_eq!(alarms.set(1000), (1, true));
        for at_ns in 1001..2000 {
            alarms.unset(at_ns - 1000);
            assert_eq!(alarms.set(at_ns), (at_ns - 999, false));
        }
        assert_eq!(alarms.ring(1000, none), (false, Some(1999)), "in vain, and once more for the alarm that is there");
        alarms.unset(1000);
        assert_eq!(alarms.ring(1999, none), (false, None), "an alarm that went wakes nobody");
    }

    #[test]
    fn every_alarm_that_stays_is_rung_at_its_time_and_rings_are_few() {
        let (mut alarms, mut random) = (Alarms::default(), Random::new(5));
        let (mut set, mut rings) = (Vec::new(), BTreeSet::new());
        for now_ns in 1..100_000_u64 {
            while rings.first() == Some(&now_ns) {
                rings.pop_first();
                let due: Vec<u64> =
                    set.extract_if(.., |(_, at_ns)| *at_ns == now_ns).map(|(number, _)| number).collect();
                let (is_due, next) = alarms.ring(now_ns, none);
                assert_eq!(is_due, !due.is_empty());
                due.into_iter().for_each(|number| alarms.unset(number));
                assert!(next.is_none_or(|at_ns| at_ns > now_ns && rings.insert(at_ns)));
            }
            assert!(set.iter().all(|(_, at_ns)| *at_ns > now_ns), "an alarm that was not rung");
            if random.chance(400) {
                let at_ns = now_ns + 1 + random.spread(12);
                let (number, asks) = alarms.set(at_ns);
                set.push((number, at_ns));
                assert!(!asks || rings.insert(at_ns));
            }
            if random.chance(300) && !set.is_empty() {
                alarms.unset(set.swap_remove(random.below(set.len() as u64) as usize).0);
            }
            assert!(rings.len() <= 40, "{} rings to come", rings.len());
        }
    }
}
