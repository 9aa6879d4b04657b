//! The checker of histories and the tester of `stateright`, which knows nothing of it, judge small
//! random histories alike: right ones and wrong ones, with operations that never returned because
//! their client died.
//!
//! Stateright's objects do one thing in each state. Evictions are given to it as operations that
//! are in flight all the time, one for each operation of the history: each may take effect once,
//! anywhere, or not at all.

use atoll_sim::Random;
use atoll_sim::history::{Call, Condition, Evictions, History, Outcome, Pending, Seen};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

/// A cache of one key as stateright knows it.
#[derive(Clone, Debug, Default)]
struct OneKey(Option<String>);

#[derive(Clone, Debug)]
enum Op {
    Evict,
    Call(Call),
}

#[derive(Clone, Debug, PartialEq)]
enum Ret {
    Evicted,
    Returned(Outcome),
}

impl SequentialSpec for OneKey {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        let Op::Call(call) = op else {
            self.0 = None;
            return Ret::Evicted;
        };
        Ret::Returned(match call {
            Call::Get => Outcome::get(self.0.as_ref().map(String::as_bytes)),
            Call::Delete => Outcome::Seen(Seen::presence(self.0.take().is_some())),
            Call::Set { value, condition, .. } => {
                let stored = match condition {
                    Condition::Always => true,
                    Condition::IfAbsent => self.0.is_none(),
                    _ => self.0.is_some(),
                };
                if stored {
                    self.0 = Some(String::from_utf8(value.clone()).unwrap());
                }
                Outcome::stored(stored)
            }
            Call::Increment { by } => {
                let sum = self.0.as_ref().map_or(0, |value| value.parse::<i64>().unwrap()) + by;
                self.0 = Some(sum.to_string());
                Outcome::Number(sum)
            }
            Call::Append { suffix } => {
                let value = self.0.take().unwrap_or_default() + std::str::from_utf8(suffix).unwrap();
                let length = value.len();
                self.0 = Some(value);
                Outcome::Length(length)
            }
            _ => unreachable!("not among those that are drawn"),
        })
    }
}

fn drawn_call(random: &mut Random) -> Call {
    let value = random.pick(&["1", "2", "3"]);
    match random.below(10) {
        0..3 => Call::Get,
        3 | 4 => Call::set(value),
        5 => Call::set_if(value, Condition::IfAbsent),
        6 => Call::set_if(value, Condition::IfPresent),
        7 => Call::Delete,
        8 => Call::Increment { by: 1 },
        _ => Call::Append { suffix: value.into() },
    }
}

/// Something else that the operation might have returned.
fn falsified(call: &Call, outcome: Outcome, random: &mut Random) -> Outcome {
    match outcome {
        Outcome::Seen(seen) if *call == Call::Get => {
            let value = random.pick(&["1", "2", "3", "4"]);
            Outcome::get((seen == Seen::Absent || random.chance(512)).then_some(value.as_bytes()))
        }
        Outcome::Seen(seen) => Outcome::Seen(Seen::presence(seen == Seen::Absent)),
        Outcome::Set { stored, .. } => Outcome::stored(!stored),
        Outcome::Number(number) => Outcome::Number(number + random.below(3) as i64 - 1),
        Outcome::Length(length) => Outcome::Length(length + random.below(2) as usize),
        other => other,
    }
}

/// A client's operation under way; the outcome once it has taken effect.
struct Open {
    call: Call,
    pending: Pending,
    outcome: Option<Outcome>,
}

/// What both say of a history of `operations` operations, some of which never return.
fn opinions(seed: u64, operations: u32, evictions: Evictions) -> (bool, bool, u32, History) {
    let mut random = Random::new(seed);
    let (history, mut state, mut dead) = (History::new(), OneKey::default(), 0);
    let mut tester = LinearizabilityTester::new(OneKey::default());
    // Threads of the tester beyond those of the clients.
    let evictors = if evictions == Evictions::Anytime { operations } else { 0 };
    for evictor in 0..evictors {
        tester.on_invoke(10_000 + evictor, Op::Evict).unwrap();
    }
    let mut clients: Vec<(u32, Option<Open>)> = (0..3).map(|client| (client, None)).collect();
    let (mut begun, mut clients_ever) = (0, 3);
    let falsify = random.pick(&[0, 0, 100, 300]);
    while begun < operations || clients.iter().any(|(_, open)| open.is_some()) {
        if evictions == Evictions::Anytime && random.chance(80) {
            state.0 = None;
        }
        let chosen = random.below(3) as usize;
        let (client, open) = &mut clients[chosen];
        match open.take() {
            None if begun < operations => {
                begun += 1;
                let call = drawn_call(&mut random);
                tester.on_invoke(*client, Op::Call(call.clone())).unwrap();
                let pending = history.begin(*client, b"k", call.clone());
                *open = Some(Open { call, pending, outcome: None });
            }
            None => {}
            Some(_) if random.chance(100) => {
                // It dies, whether or not its operation has taken effect; another client takes its
                // place.
                (dead, *client) = (dead + 1, clients_ever);
                clients_ever += 1;
            }
            Some(Open { call, pending, outcome: None }) => {
                let Ret::Returned(outcome) = state.invoke(&Op::Call(call.clone())) else { unreachable!() };
                let outcome = if random.chance(falsify) { falsified(&call, outcome, &mut random) } else { outcome };
                *open = Some(Open { call, pending, outcome: Some(outcome) });
            }
            Some(Open { pending, outcome: Some(outcome), .. }) => {
                tester.on_return(*client, Ret::Returned(outcome.clone())).unwrap();
                history.end(pending, outcome);
            }
        }
    }
    let ours = history.check_with(evictions).is_ok();
    (ours, tester.is_consistent(), dead, history)
}

fn agree(histories: u64, operations_max: u64, evictions: Evictions) {
    let (mut right, mut wrong, mut dead, mut wrong_with_dead) = (0, 0, 0, 0);
    for seed in 0..histories {
        let operations = 1 + (seed % operations_max) as u32;
        let (ours, theirs, dead_here, history) = opinions(seed, operations, evictions);
        let events: Vec<String> = history.events().iter().map(|event| format!("\n  {event:?}")).collect();
        assert_eq!(ours, theirs, "seed {seed}: ours and stateright's on {}", events.concat());
        if ours {
            right += 1
        } else {
            wrong += 1
        }
        dead += u64::from(dead_here > 0);
        wrong_with_dead += u64::from(dead_here > 0 && !ours);
    }
    println!("{evictions:?}: {right} right, {wrong} wrong, {dead} with dead, {wrong_with_dead} of these wrong");
    assert!(right > histories / 10 && wrong > histories / 20 && dead > histories / 10 && wrong_with_dead > 50);
}

#[test]
fn small_histories_without_evictions_are_judged_as_stateright_judges_them() {
    agree(20_000, 7, Evictions::Never);
}

#[test]
fn small_histories_with_evictions_are_judged_as_stateright_judges_them() {
    agree(4000, 4, Evictions::Anytime);
}
