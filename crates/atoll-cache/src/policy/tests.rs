//! The promises of every policy of the list.

use super::*;

/// Words that a slot or an extension of the pool may hold.
const WORDS: [u64; 6] = [0, 1, 1_000_000, 1 << 53, u64::MAX - 1, u64::MAX];

#[test]
fn every_policy_has_a_name_that_finds_it() {
    for id in PolicyId::all() {
        let name = id.to_string();
        assert_eq!(name.parse(), Ok(id));
        assert!(
            name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'),
            "{name}"
        );
        assert_eq!(PolicyId::from_number(id.number()), Some(id));
        assert!(id.policy().extension_words() <= EXTENSION_WORDS_MAX);
    }
    assert!("LRU".parse::<PolicyId>().unwrap_err().to_string().contains("lru, lfu"));
    assert_eq!(PolicyId::from_number(POLICIES.len() as u8), None);
}

#[test]
fn any_words_of_the_pool_have_a_priority() {
    for id in PolicyId::all() {
        let policy = id.policy();
        for word in WORDS {
            for other in WORDS {
                let object = Object { inserted_us: word, accessed_us: other, frequency: other, bytes: word };
                let mut extension = [word, other, word, other];
                let extension = &mut extension[..policy.extension_words()];
                for now_us in WORDS {
                    let _ = policy.priority(now_us, &object, extension);
                    let ghost = Ghost::live(u16::MAX, word, other, u32::MAX);
                    let access = Access { now_us, before: Some(&object), after: &object, ghost: None };
                    policy.accessed(&access, other, extension);
                    let _ = policy.evicted(other, extension);
                    policy.accessed(&Access { before: None, ghost, ..access }, word, extension);
                }
            }
        }
    }
}

#[test]
fn a_policy_without_a_global_number_leaves_it_alone() {
    for id in PolicyId::all().filter(|id| !id.policy().has_global()) {
        let extension = vec![1; id.policy().extension_words()];
        assert_eq!(id.policy().evicted(7, &extension), 7, "{id}");
    }
}
