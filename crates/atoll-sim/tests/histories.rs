//! Good and bad histories by hand: the checker must take the former and refuse the latter.

use atoll_sim::Random;
use atoll_sim::history::{Call, Condition, Event, Evictions, Expiry, History, Now, Outcome, Seen, Window};
use atoll_sim::linearizability::Span;

/// A history of operations one after the other, by two clients in turn.
fn sequence(operations: &[(Call, Outcome)]) -> History {
    let history = History::new();
    for (index, (call, outcome)) in operations.iter().enumerate() {
        let operation = history.begin(index as u32 % 2, b"k", call.clone());
        history.end(operation, outcome.clone());
    }
    history
}

fn set(value: &str) -> (Call, Outcome) {
    (Call::set(value), Outcome::stored(true))
}

fn set_if(value: &str, condition: Condition, stored: bool) -> (Call, Outcome) {
    (Call::set_if(value, condition), Outcome::stored(stored))
}

fn set_token(value: &str, token: u64) -> (Call, Outcome) {
    (Call::set(value), Outcome::Set { stored: true, seen: Seen::Nothing, token: Some(token) })
}

fn hit(value: &str) -> (Call, Outcome) {
    (Call::Get, Outcome::get(Some(value.as_bytes())))
}

fn hit_token(value: &str, token: u64) -> (Call, Outcome) {
    (Call::Get, Outcome::Seen(Seen::Present { value: Some(value.into()), token: Some(token) }))
}

fn miss() -> (Call, Outcome) {
    (Call::Get, Outcome::get(None))
}

fn delete(present: bool) -> (Call, Outcome) {
    (Call::Delete, Outcome::Seen(Seen::presence(present)))
}

fn increment(by: i64, number: i64) -> (Call, Outcome) {
    (Call::Increment { by }, Outcome::Number(number))
}

fn append(suffix: &str, length: usize) -> (Call, Outcome) {
    (Call::Append { suffix: suffix.into() }, Outcome::Length(length))
}

#[track_caller]
fn good(operations: &[(Call, Outcome)]) {
    if let Err(violation) = sequence(operations).check() {
        panic!("{violation}");
    }
}

#[track_caller]
fn bad(operations: &[(Call, Outcome)]) {
    assert!(sequence(operations).check().is_err());
}

#[test]
fn an_eviction_may_come_at_any_time_and_is_final() {
    good(&[set("a"), hit("a"), miss(), miss(), set("b"), hit("b")]);
    good(&[set("a"), set_if("b", Condition::IfAbsent, true), hit("b")]);
    good(&[set("a"), delete(false), increment(3, 3), increment(4, 4), append("5", 1)]);
    bad(&[set("a"), miss(), hit("a")]);
    bad(&[set("a"), set("b"), miss(), hit("b")]);
    bad(&[set("a"), delete(false), hit("a")]);
    bad(&[set("a"), delete(true), hit("a")]);
    bad(&[set("a"), delete(true), delete(true)]);
    bad(&[set("5"), miss(), increment(1, 6)]);
    bad(&[set("a"), miss(), append("b", 2)]);
    bad(&[set("a"), miss(), set_if("b", Condition::IfAbsent, false)]);
    bad(&[set("a"), miss(), set_if("b", Condition::IfPresent, true)]);
}

#[test]
fn a_get_never_returns_an_older_a_torn_or_a_foreign_value() {
    good(&[set("a"), set("b"), hit("b")]);
    bad(&[set("a"), set("b"), hit("a")]);
    bad(&[set("aaaa"), set("bbbb"), hit("aabb")]);
    bad(&[set("a"), hit("value of another key")]);
    bad(&[hit("a")]);
}

#[test]
fn conditional_sets_exclude_each_other() {
    good(&[set_if("a", Condition::IfAbsent, true), set_if("b", Condition::IfAbsent, false), hit("a")]);
    good(&[set_if("a", Condition::IfPresent, false), set("b"), set_if("c", Condition::IfPresent, true), hit("c")]);
    good(&[set_token("a", 1), set_if("b", Condition::IfToken(1), true), set_if("c", Condition::IfToken(1), false)]);
    good(&[set("a"), hit_token("a", 5), set_if("b", Condition::IfToken(5), true), hit("b")]);
    bad(&[set_token("a", 1), set_if("b", Condition::IfToken(2), true)]);
    bad(&[set_token("a", 1), hit_token("a", 2)]);
    bad(&[set("a"), set_token("b", 1), set("c"), hit_token("c", 1)]);
    // Both at once, and something was always there in between: at most one can have been stored.
    let history = History::new();
    let first = history.begin(0, b"k", Call::set_if("a", Condition::IfAbsent));
    let second = history.begin(1, b"k", Call::set_if("b", Condition::IfAbsent));
    let refused = Outcome::Set { stored: false, seen: Seen::value("a"), token: None };
    history.end(first, Outcome::Set { stored: true, seen: Seen::Absent, token: Some(1) });
    history.end(second, refused);
    history.check().unwrap();
    // A double success hidden by an eviction cannot be detected. If the value is seen again
    // afterwards, it can.
    bad(&[set_if("a", Condition::IfAbsent, true), set_if("b", Condition::IfAbsent, true), hit("a")]);
}

#[test]
fn what_an_eviction_would_explain_is_wrong_in_a_cache_that_never_evicts() {
    let wrong: [&[_]; 6] = [
        &[set("a"), miss()],
        &[set_if("a", Condition::IfAbsent, true), set_if("b", Condition::IfAbsent, true)],
        &[set("a"), set_if("b", Condition::IfPresent, false)],
        &[set_token("a", 1), set_if("b", Condition::IfToken(1), false)],
        &[increment(1, 1), increment(1, 1)],
        &[append("ab", 2), append("c", 1)],
    ];
    for operations in wrong {
        sequence(operations).check().unwrap();
        sequence(operations).check_with(Evictions::Never).unwrap_err();
    }
    let right = [set("a"), hit("a"), delete(true), delete(false), increment(2, 2), append("3", 2), hit("23")];
    sequence(&right).check_with(Evictions::Never).unwrap();
}

#[test]
fn no_update_is_lost_and_no_increment_counts_twice() {
    good(&[set("1"), increment(1, 2), increment(5, 7), hit("7")]);
    bad(&[set("1"), increment(1, 2), increment(1, 2)]);
    bad(&[set("a"), append("b", 2), append("c", 2)]);
    bad(&[set("a"), append("b", 2), hit("ac")]);
    good(&[set("x"), (Call::Increment { by: 1 }, Outcome::NotANumber), hit("x")]);
    bad(&[set("1"), (Call::Increment { by: 1 }, Outcome::NotANumber)]);
    // Two increments at once: one must have seen the other.
    let both = |first: i64, second: i64| {
        let history = sequence(&[set("10")]);
        let one = history.begin(0, b"k", Call::Increment { by: 1 });
        let two = history.begin(1, b"k", Call::Increment { by: 1 });
        history.end(one, Outcome::Number(first));
        history.end(two, Outcome::Number(second));
        history.check()
    };
    both(11, 12).unwrap();
    both(12, 11).unwrap();
    both(11, 1).unwrap();
    both(11, 11).unwrap_err();
    both(12, 12).unwrap_err();
}

#[test]
fn an_operation_without_an_outcome_may_have_happened_once_at_any_later_time() {
    let history = sequence(&[set("1")]);
    let _lost = history.begin(7, b"k", Call::Increment { by: 1 });
    let more = |call: Call, outcome: Outcome| {
        let operation = history.begin(1, b"k", call);
        history.end(operation, outcome);
        history.check()
    };
    more(Call::Get, Outcome::get(Some(b"1"))).unwrap();
    more(Call::Get, Outcome::get(Some(b"2"))).unwrap();
    more(Call::Get, Outcome::get(Some(b"2"))).unwrap();
    more(Call::Get, Outcome::get(Some(b"3"))).unwrap_err();
}

#[test]
fn an_expire_without_an_outcome_may_have_removed_what_was_there() {
    let history = sequence(&[set("1")]);
    let _lost = history.begin(7, b"k", Call::Expire { expiry: Expiry::AtMs(0) });
    let get = history.begin(1, b"k", Call::Get);
    history.end(get, Outcome::get(None));
    history.check_with(Evictions::Never).unwrap();
    let get = history.begin(1, b"k", Call::Get);
    history.end(get, Outcome::get(Some(b"1")));
    history.check_with(Evictions::Never).unwrap_err();
}

#[test]
fn a_violation_is_told_by_its_shortest_excerpt() {
    let mut operations = vec![set("old")];
    operations.extend(std::iter::repeat_n(hit("old"), 50));
    operations.extend([set("new"), hit("new"), miss(), hit("new"), set("later"), hit("later")]);
    let violation = sequence(&operations).check().unwrap_err();
    let text = violation.to_string();
    assert!(text.contains("-> \"new\"") && !text.contains("later"), "{text}");
    assert!(violation.excerpt.lines().count() <= 4, "{text}");
}

/// An operation of one after the other, which judged by a time from `least_ms` to `most_ms`.
type Timed = (Call, Outcome, u64, u64);

fn timed(operations: &[Timed]) -> History {
    let event = |(number, (call, outcome, least_ms, most_ms)): (usize, &Timed)| Event {
        client: number as u32,
        key: b"k".to_vec(),
        call: call.clone(),
        outcome: Some(outcome.clone()),
        span: Span { invoked: 2 * number as u64 + 1, returned: Some(2 * number as u64 + 2), fenced: None },
        window: Window { least_ms: *least_ms, most_ms: *most_ms, counted_ms: *most_ms },
    };
    History::from_events(operations.iter().enumerate().map(event).collect())
}

/// A set at 100 ms of a value that expires so.
fn set_until(expiry: Expiry) -> Timed {
    (Call::set_until("5", Condition::Always, expiry), Outcome::stored(true), 98, 101)
}

fn expire(expiry: Expiry) -> (Call, Outcome) {
    (Call::Expire { expiry }, Outcome::Seen(Seen::presence(true)))
}

/// What only a value that is there gives, one operation each, and what only an absent one gives.
fn of_present_and_absent() -> [Vec<(Call, Outcome)>; 2] {
    let taken = (Call::Delete, Outcome::Seen(Seen::value("5")));
    let present = vec![
        hit("5"),
        hit_token("5", 7),
        delete(true),
        taken,
        increment(1, 6),
        append("6", 2),
        set_if("6", Condition::IfAbsent, false),
        set_if("6", Condition::IfPresent, true),
        expire(Expiry::Never),
    ];
    let absent = vec![
        miss(),
        delete(false),
        increment(1, 1),
        append("6", 1),
        set_if("6", Condition::IfAbsent, true),
        set_if("6", Condition::IfPresent, false),
        (Call::Expire { expiry: Expiry::Never }, Outcome::Seen(Seen::Absent)),
    ];
    [present, absent]
}

#[test]
fn nothing_is_served_after_its_expiry_and_nothing_expires_before() {
    // From 98 + 900 to 101 + 900 ms, or exactly.
    for (expiry, first_ms, last_ms) in [(Expiry::InMs(900), 998, 1001), (Expiry::AtMs(1000), 1000, 1000)] {
        let [present, absent] = of_present_and_absent();
        let then = |(call, outcome): &(Call, Outcome), least_ms, most_ms| {
            timed(&[set_until(expiry), (call.clone(), outcome.clone(), least_ms, most_ms)])
        };
        for operation in &present {
            then(operation, last_ms - 1, last_ms + 5).check().unwrap();
            then(operation, last_ms, last_ms + 5).check().unwrap_err();
        }
        for operation in &absent {
            then(operation, 900, first_ms).check_with(Evictions::Never).unwrap();
            then(operation, 900, first_ms - 1).check_with(Evictions::Never).unwrap_err();
            then(operation, 900, first_ms - 1).check().unwrap();
        }
    }
}

#[test]
fn what_has_expired_for_one_is_never_found_again() {
    let read = |(call, outcome), least_ms| (call, outcome, least_ms, least_ms + 3);
    let set = set_until(Expiry::AtMs(1000));
    timed(&[set.clone(), read(hit("5"), 998), read(miss(), 998)]).check().unwrap();
    timed(&[set.clone(), read(miss(), 998), read(hit("5"), 998)]).check().unwrap_err();
    timed(&[set, read(miss(), 998), read(increment(1, 6), 998)]).check().unwrap_err();
}

#[test]
fn an_expiry_that_was_moved_counts_and_one_that_is_kept_stays() {
    let at = |(call, outcome): (Call, Outcome), ms| (call, outcome, ms, ms);
    let set = set_until(Expiry::AtMs(1000));
    let check = |operations: &[Timed]| timed(operations).check_with(Evictions::Never);
    check(&[set.clone(), at(expire(Expiry::Never), 500), at(hit("5"), 5000)]).unwrap();
    check(&[set.clone(), at(expire(Expiry::Never), 500), at(miss(), 5000)]).unwrap_err();
    check(&[set.clone(), at(expire(Expiry::InMs(100)), 500), at(miss(), 600)]).unwrap();
    check(&[set.clone(), at(expire(Expiry::InMs(100)), 500), at(hit("5"), 600)]).unwrap_err();
    check(&[set.clone(), at(increment(1, 6), 500), at(hit("6"), 999), at(miss(), 1000)]).unwrap();
    check(&[set.clone(), at(increment(1, 6), 500), at(hit("6"), 1000)]).unwrap_err();
    let kept = (Call::set_until("6", Condition::Always, Expiry::Keep), Outcome::stored(true));
    check(&[set.clone(), at(kept.clone(), 500), at(hit("6"), 1000)]).unwrap_err();
    check(&[set.clone(), at(kept, 1000), at(hit("6"), 1000)]).unwrap();
    check(&[set, at((Call::set("6"), Outcome::stored(true)), 500), at(hit("6"), 5000)]).unwrap();
}

#[test]
fn a_history_with_the_pools_clock_knows_when_its_operations_judged() {
    let at = |ns, pool_ms, reckoned_ms| Now { ns, pool_ms, reckoned_ms };
    let now = std::rc::Rc::new(std::cell::Cell::new(at(0, Some(1000), 1000)));
    let look = now.clone();
    let history = History::with_clock(2, 50, move || look.get());
    let until = |history: &History| history.events().last().unwrap().window;
    for (ns, ms, least_ms) in [(0, 1000, 0), (1_000_000, 1001, 0), (2_000_000, 1002, 1000), (9_000_000, 1009, 1003)] {
        now.set(at(ns, Some(ms), ms));
        let operation = history.begin(0, b"k", Call::Get);
        assert_eq!(until(&history), Window::since(least_ms));
        now.set(at(ns + 1, Some(ms + 1), ms + 1));
        history.end(operation, Outcome::get(None));
        assert_eq!(until(&history), Window { least_ms, most_ms: ms + 1, counted_ms: ms + 1 });
        now.set(at(ns, Some(ms), ms));
    }
    // The pool's clock stands still for a while; then it is ahead, and clients reckon from there.
    for (pool_ms, reckoned_ms, counted_ms) in [(1010, 1014, 1014), (1020, 1018, 1020), (1020, 1021, 1023)] {
        let operation = history.begin(0, b"k", Call::Get);
        now.set(at(9_000_000, Some(pool_ms), reckoned_ms));
        history.end(operation, Outcome::get(None));
        assert_eq!(until(&history), Window { least_ms: 1003, most_ms: pool_ms, counted_ms });
    }
    // Long after that look no client does.
    for (ns, counted_ms) in [(50_000_000, 1064), (60_000_000, 1062)] {
        now.set(at(ns, Some(1020), 1062));
        let operation = history.begin(0, b"k", Call::Get);
        history.end(operation, Outcome::get(None));
        assert_eq!(until(&history).counted_ms, counted_ms, "at {ns}");
    }
    // The clock may have gone on before its memory was lost.
    let operation = history.begin(0, b"k", Call::Get);
    now.set(at(60_000_001, None, 1063));
    history.end(operation, Outcome::get(None));
    assert_eq!(until(&history), Window::since(1020));
}

/// A correct cache with random response times, and optionally one wrong answer.
fn random_history(seed: u64, operations: usize, clients: u32, wrong: bool) -> History {
    let (mut random, history) = (Random::new(seed), History::new());
    let mut state: Option<Vec<u8>> = None;
    let mut open: Vec<Option<(atoll_sim::history::Pending, Outcome)>> = (0..clients).map(|_| None).collect();
    for number in 0..operations {
        let client = random.below(u64::from(clients)) as usize;
        if let Some((operation, outcome)) = open[client].take() {
            history.end(operation, outcome);
        }
        if random.chance(50) {
            state = None;
        }
        let value = format!("{number}").into_bytes();
        let (call, outcome) = match random.below(8) {
            0 | 1 => (Call::set(value.clone()), Outcome::stored(true)),
            2 => (Call::set_if(value.clone(), Condition::IfAbsent), Outcome::stored(state.is_none())),
            3 => (Call::Delete, Outcome::Seen(Seen::presence(state.is_some()))),
            4 => {
                let sum = state.as_ref().map_or(0, |old| std::str::from_utf8(old).unwrap().parse::<i64>().unwrap()) + 1;
                (Call::Increment { by: 1 }, Outcome::Number(sum))
            }
            _ => (Call::Get, Outcome::get(state.as_deref())),
        };
        match (&call, &outcome) {
            (Call::Set { .. }, Outcome::Set { stored: true, .. }) => state = Some(value),
            (Call::Delete, _) => state = None,
            (_, Outcome::Number(number)) => state = Some(number.to_string().into_bytes()),
            _ => {}
        }
        let operation = history.begin(client as u32, b"k", call);
        open[client] = Some((operation, outcome));
    }
    for (operation, outcome) in open.into_iter().flatten() {
        history.end(operation, outcome);
    }
    if wrong {
        let (call, outcome) = hit("never written");
        let operation = history.begin(0, b"k", call);
        history.end(operation, outcome);
    }
    history
}

#[test]
fn long_histories_of_many_clients_are_judged() {
    for seed in 0..200 {
        let result = random_history(seed, 200, 8, false).check();
        assert!(result.is_ok(), "seed {seed}: {}", result.unwrap_err());
        // To refuse one takes many searches, which find its shortest excerpt.
        assert!(seed % 10 != 0 || random_history(seed, 200, 8, true).check().is_err(), "seed {seed}");
    }
}
