//! Bytes that are read as a hash are one: its pairs encode to the same hash, and a field that is
//! set or removed leaves the others. The tests in `atoll-server/src/redis/hash.rs` hold the same on
//! a stable compiler.
#![no_main]

use atoll_server::redis::hash::{Fields, Hash, Pair, Remaking, TooLong, push_pair};

fn pairs(bytes: &[u8]) -> Vec<Pair<'_>> {
    Hash::read(bytes).into_iter().flat_map(|hash| hash.pairs().collect::<Vec<_>>()).collect()
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(hash) = Hash::read(bytes) else { return };
    let all = pairs(bytes);
    assert_eq!(all.len(), hash.count());
    let mut again = Vec::new();
    all.iter().for_each(|pair| push_pair(*pair, &mut again));
    assert!(again.len() <= bytes.len() && pairs(&again) == all);
    for field in [all[0].0, all[all.len() - 1].0, b"another"] {
        assert_eq!(hash.get(field), all.iter().find(|(other, _)| *other == field).map(|(_, value)| *value));
        let others = |of: &[u8]| -> Vec<(Vec<u8>, Vec<u8>)> {
            let others = pairs(of).into_iter().filter(|(other, _)| *other != field);
            others.map(|(field, value)| (field.to_vec(), value.to_vec())).collect()
        };
        let (mut fields, mut left, mut changed) = (Fields::default(), Vec::new(), Vec::new());
        fields.add(field);
        let was_there = hash.get(field).is_some();
        assert_eq!(Remaking::remove(hash, &fields).whole(&mut left).ok(), Some(usize::from(was_there)));
        assert_eq!((others(bytes), pairs(&left).len()), (others(&left), others(&left).len()));
        match Remaking::set(Some(hash), &fields, &[b"new"]).whole(&mut changed) {
            Ok(added) => {
                assert_eq!((added, others(bytes)), (usize::from(!was_there), others(&changed)));
                assert_eq!(Hash::read(&changed).unwrap().get(field), Some(&b"new"[..]));
            }
            Err(TooLong(length)) => assert!(length > bytes.len()),
        }
    }
});
