//! What the contract says of regions that compute nodes export: see
//! [`Endpoint::export`](crate::Endpoint::export).

use super::{Case, fetch_and_add, read, wait_for, word, write};
use crate::{Address, Endpoint, FabricError, Kind, Lifetime, RegionAttributes, VerbError};

pub(super) fn cases<E: Endpoint + 'static>() -> Vec<Case<E>> {
    vec![
        Case::new("an_exported_region_is_words_like_any_other_to_its_peers", CLIENTS, |e, c, r| {
            Box::pin(share(e, c, r))
        }),
        Case::new("every_exporter_has_a_number_of_its_own_among_compute_nodes", CLIENTS, |e, c, _| {
            Box::pin(number(e, c))
        }),
        Case::new("an_exported_region_goes_with_its_owner", 2, |e, c, _| match c {
            0 => Box::pin(leave(e)),
            _ => Box::pin(miss(e)),
        }),
        Case::new(
            "no_verb_reaches_a_region_once_any_endpoint_was_told_that_it_has_ended",
            CLIENTS,
            |e, c, _| match c {
                0 => Box::pin(leave_to_all(e)),
                1 => Box::pin(reach_on(e)),
                _ => Box::pin(be_told(e)),
            },
        ),
    ]
}

pub(super) fn followed<E: Endpoint + 'static>() -> Vec<Case<E>> {
    vec![
        Case::new("the_owner_of_a_region_sees_its_words_without_a_verb", CLIENTS, |e, c, r| match c {
            0 => Box::pin(follow(e, r)),
            _ => Box::pin(change(e, r)),
        }),
        Case::new("others_of_its_host_see_them_too_until_it_ends", CLIENTS, |e, c, r| match c {
            0 => Box::pin(own(e)),
            1 => Box::pin(follow_another(e, r)),
            _ => Box::pin(change_until_it_ends(e, r)),
        }),
    ]
}

const CLIENTS: usize = 3;
const BYTES: u64 = 1 << 14;
/// Words of the home: clients that are done, and addresses by client.
const DONE: u64 = 40;
const PLACES: u64 = 48;

/// What every fabric exports that exports anything.
fn wanted<E: Endpoint>(endpoint: &E) -> RegionAttributes {
    let home = endpoint.region_attributes(0).expect("the home is there");
    RegionAttributes { bytes: BYTES, kind: Kind::Host, domain: home.domain, lifetime: Lifetime::Process }
}

/// Exports a region and says where.
async fn publish<E: Endpoint>(endpoint: &E, place: u64) -> Address {
    let at = endpoint.export(wanted(endpoint)).expect("there is room");
    assert_eq!((at.offset(), endpoint.reach_export(at)), (0, Ok(wanted(endpoint))));
    write(endpoint, word(PLACES + place), at.to_bits()).await;
    at
}

async fn published<E: Endpoint>(endpoint: &E, place: u64) -> Address {
    Address::from_bits(wait_for(endpoint, word(PLACES + place), 1).await)
}

async fn done<E: Endpoint>(endpoint: &E, clients: usize) {
    fetch_and_add(endpoint, word(DONE), 1).await;
    wait_for(endpoint, word(DONE), clients as u64).await;
}

/// Client 0 exports; all add to its words and tell each other by them.
async fn share<E: Endpoint>(endpoint: E, client: usize, rounds: u64) {
    let at = if client == 0 { publish(&endpoint, 0).await } else { published(&endpoint, 0).await };
    assert_eq!(endpoint.reach_export(at), Ok(wanted(&endpoint)));
    let (sum, own) = (at.add(BYTES - 8), at.add(64 * (1 + client as u64)));
    for round in 1..=rounds {
        fetch_and_add(&endpoint, sum, 1).await;
        write(&endpoint, own, round).await;
    }
    done(&endpoint, CLIENTS).await;
    assert_eq!(read(&endpoint, sum).await, rounds * CLIENTS as u64, "atomics exclude each other");
    for other in 0..CLIENTS {
        assert_eq!(read(&endpoint, at.add(64 * (1 + other as u64))).await, rounds);
    }
    let mut batch = crate::Batch::new();
    batch.write_word(at.add(BYTES), 1);
    let outside = endpoint.post(&mut batch).await;
    assert!(matches!(outside, Err(VerbError::Unreachable(_))), "{outside:?}");
    // The owner stays until all have looked.
    fetch_and_add(&endpoint, word(DONE), 1).await;
    wait_for(&endpoint, word(DONE), 2 * CLIENTS as u64).await;
}

async fn number<E: Endpoint>(endpoint: E, client: usize) {
    let device = RegionAttributes { kind: Kind::Device, ..wanted(&endpoint) };
    let refused = endpoint.export(device);
    assert!(matches!(refused, Err(FabricError::NoExport { .. })), "no fabric here has device memory: {refused:?}");
    let first = publish(&endpoint, 2 * client as u64).await;
    let second = publish(&endpoint, 2 * client as u64 + 1).await;
    assert_eq!(first.compute_node(), second.compute_node(), "an endpoint is one compute node");
    assert!(first.compute_node().is_some() && first.region() != second.region());
    write(&endpoint, second, client as u64 + 1).await;
    done(&endpoint, CLIENTS).await;
    for other in (0..CLIENTS).filter(|other| *other != client) {
        let at = published(&endpoint, 2 * other as u64 + 1).await;
        assert_ne!(at.compute_node(), first.compute_node(), "two living endpoints with one number");
        assert_eq!(endpoint.reach_export_if(at, CLIENTS as u64 + 1), Ok(false));
        assert_eq!(endpoint.reach_export_if(at, other as u64 + 1), Ok(true));
        assert_eq!(read(&endpoint, at).await, other as u64 + 1);
        let outside = endpoint.reach_export_if(at.add(BYTES), 0);
        assert!(matches!(outside, Err(VerbError::ExportAbsent(_))), "{outside:?}");
        endpoint.reach_export(at).expect("its owner lives");
        assert_eq!(read(&endpoint, at).await, other as u64 + 1, "each region has words of its own");
        let none = endpoint.reach_export(Address::on_compute(at.compute_node().unwrap_or(0), 9, 0));
        assert!(matches!(&none, Err(VerbError::ExportAbsent(absent)) if absent.region == 9), "{none:?}");
    }
    let home = endpoint.reach_export(word(0));
    assert!(matches!(home, Err(VerbError::ExportAbsent(_))), "a memory node's region is no export: {home:?}");
    fetch_and_add(&endpoint, word(DONE), 1).await;
    wait_for(&endpoint, word(DONE), 2 * CLIENTS as u64).await;
}

async fn leave<E: Endpoint>(endpoint: E) {
    publish(&endpoint, 0).await;
    wait_for(&endpoint, word(DONE), 1).await;
}

async fn miss<E: Endpoint>(endpoint: E) {
    let at = published(&endpoint, 0).await;
    endpoint.reach_export(at).expect("its owner waits for this client");
    write(&endpoint, word(DONE), 1).await;
    while endpoint.reach_export(at).is_ok() {
        endpoint.pause(1000).await;
    }
    let gone = endpoint.reach_export(at);
    assert!(matches!(gone, Err(VerbError::ExportAbsent(_))), "{gone:?}");
    let gone = endpoint.reach_export_if(at, 0);
    assert!(matches!(gone, Err(VerbError::ExportAbsent(_))), "{gone:?}");
    // The number may be lent again; a region of its new owner is a new one.
    let again = endpoint.export(wanted(&endpoint)).expect("there is room");
    assert_eq!(read(&endpoint, again).await, 0);
}

/// Ends once both others have reached its region.
async fn leave_to_all<E: Endpoint>(endpoint: E) {
    publish(&endpoint, 0).await;
    wait_for(&endpoint, word(DONE), 2).await;
}

/// Uses the region until it has ended; then client 2 was not told of its end before.
async fn reach_on<E: Endpoint>(endpoint: E) {
    let at = published(&endpoint, 0).await;
    endpoint.reach_export(at).expect("its owner waits for this client");
    fetch_and_add(&endpoint, word(DONE), 1).await;
    let mut steps = (0..4).cycle();
    loop {
        let was_told = read(&endpoint, word(PLACES + 1)).await == 1;
        let mut batch = crate::Batch::new();
        let step = steps.next();
        let done = match step {
            Some(0) => endpoint.read(at, crate::Buffer::sized(64)).await.map(drop),
            Some(1) => {
                batch.write_word(at.add(128), 1);
                endpoint.post(&mut batch).await
            }
            Some(2) => {
                // With a verb for the home.
                batch.read_word(word(PLACES));
                batch.fetch_and_add(at.add(64), 1);
                endpoint.post(&mut batch).await
            }
            _ => {
                batch.fetch_and_add(at.add(64), 1);
                endpoint.post(&mut batch).await
            }
        };
        match done {
            Ok(()) => assert!(!was_told, "client 2 was told of the end before, and step {step:?} succeeded"),
            Err(VerbError::PeerDead | VerbError::ExportAbsent(_) | VerbError::Unreachable(_)) => {
                if was_told && step == Some(3) {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
        endpoint.pause(100).await;
    }
}

async fn be_told<E: Endpoint>(endpoint: E) {
    let at = published(&endpoint, 0).await;
    endpoint.reach_export(at).expect("its owner waits for this client");
    fetch_and_add(&endpoint, word(DONE), 1).await;
    while endpoint.reach_export(at).is_ok() {
        endpoint.pause(1000).await;
    }
    write(&endpoint, word(PLACES + 1), 1).await;
}

/// The owner follows its region: what others have changed it sees, once they know that they have.
async fn follow<E: Endpoint>(endpoint: E, rounds: u64) {
    let at = endpoint.export(wanted(&endpoint)).expect("there is room");
    assert_eq!(endpoint.own_word(at), None, "the region is not followed yet");
    endpoint.follow(at).expect("it is this endpoint's own");
    assert_eq!(endpoint.own_word(at.add(64)), Some(0));
    assert_eq!(endpoint.own_word(at.add(BYTES)), None, "there is no such word");
    let own = endpoint.follow(Address::on_compute(at.compute_node().unwrap_or(0), 9, 0));
    assert!(matches!(own, Err(FabricError::NoExport { .. })), "{own:?}");
    write(&endpoint, word(PLACES), at.to_bits()).await;
    // A word of the home says how many changes have completed.
    let mut seen = 0;
    while seen < rounds * (CLIENTS as u64 - 1) {
        let completed = read(&endpoint, word(DONE)).await;
        seen = endpoint.own_word(at.add(64)).expect("it is followed");
        assert!(seen >= completed, "{completed} changes have completed, {seen} are seen");
        endpoint.pause(100).await;
    }
    let rounds = rounds * (CLIENTS as u64 - 1);
    wait_for(&endpoint, word(DONE), rounds).await;
}

async fn change<E: Endpoint>(endpoint: E, rounds: u64) {
    let at = published(&endpoint, 0).await;
    endpoint.reach_export(at).expect("its owner waits");
    for _ in 0..rounds {
        fetch_and_add(&endpoint, at.add(64), 1).await;
        fetch_and_add(&endpoint, word(DONE), 1).await;
    }
}

/// The owner of a region that client 1 follows. It ends once client 1 has seen enough changes.
async fn own<E: Endpoint>(endpoint: E) {
    let at = endpoint.export(wanted(&endpoint)).expect("there is room");
    endpoint.follow(at).expect("it is this endpoint's own");
    write(&endpoint, word(PLACES), at.to_bits()).await;
    wait_for(&endpoint, word(PLACES + 1), 1).await;
}

/// Follows the region of client 0. No change of client 2 has completed that is not seen here, until
/// the region gives no word any more.
async fn follow_another<E: Endpoint>(endpoint: E, rounds: u64) {
    let at = published(&endpoint, 0).await;
    endpoint.follow(at).expect("its owner follows it");
    write(&endpoint, word(PLACES + 2), 1).await;
    let mut told = false;
    loop {
        let completed = read(&endpoint, word(DONE)).await;
        let Some(seen) = endpoint.own_word(at.add(64)) else { break };
        assert!(seen >= completed, "{completed} changes have completed, {seen} are seen");
        if !told && seen >= rounds {
            told = true;
            write(&endpoint, word(PLACES + 1), 1).await;
        }
        endpoint.pause(100).await;
    }
    write(&endpoint, word(PLACES + 3), 1).await;
}

/// Changes the region of client 0 as long as it is there.
async fn change_until_it_ends<E: Endpoint>(endpoint: E, _rounds: u64) {
    let at = published(&endpoint, 0).await;
    wait_for(&endpoint, word(PLACES + 2), 1).await;
    while endpoint.reach_export(at).is_ok() {
        let mut batch = crate::Batch::new();
        batch.fetch_and_add(at.add(64), 1);
        if endpoint.post(&mut batch).await.is_err() {
            break;
        }
        fetch_and_add(&endpoint, word(DONE), 1).await;
    }
    // The region is gone: a process that followed it answers for it no more, so that this is
    // unseen.
    fetch_and_add(&endpoint, word(DONE), 1 << 32).await;
    wait_for(&endpoint, word(PLACES + 3), 1).await;
}
