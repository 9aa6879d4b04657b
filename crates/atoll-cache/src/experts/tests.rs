//! Tests of the experts at the limits of their numbers.

use super::*;
use crate::policy::EXTENSION_WORDS_MAX;

const HISTORY: u32 = 1000;

fn experts(names: &str, settings: Settings) -> Experts {
    Experts::new(names.parse().unwrap(), settings, 0)
}

fn ghost(experts: u16, depth: u32) -> Ghost {
    Ghost { experts, depth, history: HISTORY }
}

/// An object with these times of insertion and last access, and so many accesses.
fn candidate(inserted_us: u64, accessed_us: u64, frequency: u64) -> Candidate<'static> {
    Candidate { object: Object { inserted_us, accessed_us, frequency, bytes: 1 }, extension: &[0; EXTENSION_WORDS_MAX] }
}

fn approx(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn a_set_is_read_as_it_is_written_and_a_wrong_one_is_refused() {
    for names in ["lru", "lru+lfu", "fifo+random+lru"] {
        assert_eq!(names.parse::<ExpertSet>().unwrap().to_string(), names);
    }
    assert_eq!("".parse::<ExpertSet>(), Err(ExpertSetError::Empty));
    assert_eq!(ExpertSet::new([]), Err(ExpertSetError::Empty));
    assert!(matches!("lru+lru".parse::<ExpertSet>(), Err(ExpertSetError::Twice { .. })));
    for unknown in ["lru+", "lru,lfu", "best"] {
        assert!(matches!(unknown.parse::<ExpertSet>(), Err(ExpertSetError::Unknown(_))), "{unknown}");
    }
}

#[test]
fn one_expert_is_always_right() {
    let mut one = experts("lru", Settings { batch: 2, ..Settings::paper() });
    assert!(!one.regret(ghost(1, 0)) && one.regret(ghost(1, 0)));
    assert_eq!(one.weights(), [1.0]);
    let sums = one.penalties();
    one.merged(&sums);
    assert_eq!(one.weights(), [1.0]);
    let candidates = [candidate(1, 9, 1), candidate(5, 6, 7), candidate(2, 8, 1)];
    for random in [0, 1 << 40, u64::MAX] {
        assert_eq!(one.choose(10, &candidates, random), Some(Choice { victim: 1, experts: 1 }));
    }
    assert_eq!(one.choose(10, &[], 0), None);
}

#[test]
fn candidates_are_drawn_by_the_weights_of_those_who_name_them() {
    let three = experts("lru+lfu+fifo", Settings::paper());
    let candidates = [candidate(1, 9, 5), candidate(5, 6, 1)];
    let drawn = |thirds: f64| three.choose(10, &candidates, (thirds / 3.0 * u64::MAX as f64) as u64).unwrap();
    let both = Choice { victim: 1, experts: 0b011 };
    assert_eq!([drawn(0.0), drawn(1.9)], [both, both]);
    assert_eq!([drawn(2.1), drawn(3.0)], [Choice { victim: 0, experts: 0b100 }; 2]);
}

#[test]
fn exploring_gives_every_candidate_its_chance() {
    let two = experts("lru+lfu", Settings { explore: 0.1, ..Settings::paper() });
    assert!(approx(two.weights.chance(0b01, 2), 0.5) && approx(two.weights.chance(0b11, 1), 1.0));
    let mut sure = experts("lru+lfu", Settings { explore: 0.1, ..Settings::paper() });
    for _ in 0..1000 {
        sure.regret(ghost(0b01, 0));
    }
    assert!(approx(sure.weights.chance(0b01, 2), 0.9 * 0.01 + 0.05));
}

#[test]
fn a_regret_costs_less_the_older_the_ghost() {
    let mut two = experts("lru+lfu", Settings::paper());
    two.regret(ghost(0b01, 0));
    let ratio = two.weights()[0] / two.weights()[1];
    assert!(approx(ratio, (-0.1_f64).exp()), "{ratio}");
    let mut two = experts("lru+lfu", Settings::paper());
    two.regret(ghost(0b01, HISTORY / 2));
    assert!(approx(two.weights()[0] / two.weights()[1], (-0.1 * 0.005_f64.sqrt()).exp()));
    let mut two = experts("lru+lfu", Settings::paper());
    two.regret(ghost(0b11, 3));
    two.regret(Ghost { experts: u16::MAX, depth: u32::MAX, history: 0 });
    assert_eq!(two.weights(), [0.5, 0.5], "all were wrong, so that none is better; bits of no expert mean nothing");
}

#[test]
fn weights_stop_at_their_bounds_and_come_back_from_there() {
    for count in [2, 3, 12] {
        let mut weights = Weights::new(count, Settings::paper());
        for _ in 0..10_000 {
            weights.regret(ghost(0b1, 0));
        }
        let total: f64 = weights.all().iter().sum();
        assert!(approx(total, 1.0) && (0.009..0.011).contains(&weights.all()[0]), "{weights:?}");
        for _ in 0..100 {
            weights.regret(ghost(u16::MAX - 1, 0));
        }
        assert!(weights.all()[0] > 0.85, "{weights:?}");
    }
}

#[test]
fn penalties_of_many_clients_add_up_to_one_clients_weights_in_any_order() {
    let settings = Settings { learning_rate: 0.01, ..Settings::paper() };
    let mut alone = experts("lru+lfu+fifo", settings);
    let mut clients = [alone.clone(), alone.clone(), alone.clone()];
    // Close to the end of a word, so that sums wrap.
    let mut pool = [u64::MAX - 7; 3];
    for step in 0..90_u32 {
        let regret = ghost([0b001, 0b010, 0b101][step as usize % 3], step * 11 % HISTORY);
        alone.regret(regret);
        clients[step as usize % 3].regret(regret);
    }
    for client in [2, 0, 1] {
        let penalties = clients[client].penalties();
        pool.iter_mut().zip(penalties).for_each(|(sum, penalty)| *sum = sum.wrapping_add(penalty));
    }
    for client in &mut clients {
        client.merged(&pool);
        assert!(
            client.weights().iter().zip(alone.weights()).all(|(a, b)| (a - b).abs() < 1e-6),
            "{client:?} {alone:?}"
        );
        assert!(client.penalties().iter().all(|&penalty| penalty == 0), "a batch is sent once");
    }
}

#[test]
fn sums_that_ran_apart_come_back_to_the_bounds() {
    let mut client = experts("lru+lfu", Settings::paper());
    let mut pool = [1_u64 << 40, 0];
    client.merged(&pool);
    assert!(approx(client.weights()[0], 0.01) && approx(client.weights()[1], 0.99));
    pool.iter_mut().zip(client.penalties()).for_each(|(sum, penalty)| *sum = sum.wrapping_add(penalty));
    let apart = pool[0].wrapping_sub(pool[1]) as i64 as f64 * PENALTY_UNIT;
    assert!((apart - 99_f64.ln()).abs() < 1e-6, "{apart}");
    client.merged(&pool);
    assert!(client.penalties().iter().all(|&penalty| penalty as i64 as f64 * PENALTY_UNIT > -1e-6));
}

#[test]
fn any_words_of_the_pool_give_weights() {
    let mut client = experts("lru+lfu+fifo", Settings::paper());
    for sums in [[0, u64::MAX, 1 << 63], [1 << 63, 0, u64::MAX], [u64::MAX; 3]] {
        client.merged(&sums);
        assert!(approx(client.weights().iter().sum(), 1.0) && client.weights().iter().all(|weight| *weight > 0.009));
        client.penalties();
    }
}

/// A key's hash: all its bits look random.
fn spread(key: u64) -> u64 {
    crate::policy::mix(key)
}

/// Misses of `requests` over keys of a loop, and the table afterwards.
fn looped(names: &str, settings: Settings, loop_keys: u64, laps: u64, objects_max: usize) -> (u64, Table) {
    let mut table = Table::new(names.parse().unwrap(), settings, objects_max);
    let mut misses = 0;
    for now in 0..loop_keys * laps {
        let hash = spread(now % loop_keys + 1);
        if !table.touch(hash, 1000 * now) {
            misses += 1;
            table.insert(hash, 1, 1000 * now);
        }
        assert!(table.objects() <= objects_max);
    }
    (misses, table)
}

#[test]
fn miniatures_find_the_expert_for_a_loop_that_the_first_one_always_misses() {
    let [lru, mru, both] = ["lru", "mru", "lru+mru"].map(|names| looped(names, Settings::default(), 3000, 20, 2000));
    assert_eq!(both.1.experts().leader(), 1, "{:?}", both.1.experts().weights());
    assert!(mru.0 < both.0 && both.0 < lru.0, "{} {} {}", lru.0, mru.0, both.0);
}

/// A loop that is a little larger than the cache, dealt to eight clients by the key. A miniature as
/// large as the cache would hold all the keys that one client asks for.
#[test]
fn one_of_many_clients_has_miniatures_of_its_share() {
    let leader_of = |sharers: u64| {
        let mut experts = Experts::new("lru+mru".parse().unwrap(), Settings::default(), 8000);
        for step in 0..20_000u64 {
            let key = 8 * (step % 1500);
            experts.observe(spread(key), 1, 1000 * step);
            experts.evicted(step * sharers);
        }
        experts.leader()
    };
    assert_eq!([leader_of(1), leader_of(8)], [0, 1]);
}

#[test]
fn an_expert_alone_needs_no_miniature() {
    let alone = |settings| looped("lfu", settings, 300, 10, 200).0;
    assert_eq!(alone(Settings::default()), alone(Settings::paper()));
}

#[test]
fn a_table_of_one_object_evicts_it() {
    let mut table = Table::new("lru+lfu".parse().unwrap(), Settings::default(), 1);
    assert_eq!([table.insert(5, 1, 1), table.insert(6, 1, 2)], [None, Some(5)]);
    assert!(table.contains(6) && !table.contains(5) && table.is_full());
    table.remove(6);
    table.remove(7);
    assert_eq!((table.objects(), table.insert(8, 1, 3)), (0, None));
}

#[test]
fn the_shipped_set_is_a_set_without_words_beside_objects() {
    assert_eq!(DEFAULT_SET.parse::<ExpertSet>().unwrap().extension_words(), 0);
}
