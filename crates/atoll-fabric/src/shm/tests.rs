//! What a process, its fork and another mapping see of a region.

use super::names::{export_name, path_of};
use super::{HostMemory, HostUser, ShmEndpoint, ShmRegion, fork};
use crate::{Address, Batch, Endpoint, FabricError, Identity, Lifetime, Region, RegionAttributes, VerbError};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[test]
fn a_name_is_checked_before_any_file_is_touched() {
    for name in ["", "x", "shm:", "shm:/", "shm:/a/b", "shm:/..%", "shm:/a b"] {
        assert!(matches!(ShmRegion::open(name), Err(FabricError::BadName(_))), "{name}");
    }
    assert!(matches!(ShmRegion::open("shm:/surely-nobody-made-this"), Err(FabricError::Absent(_))));
}

#[test]
fn a_region_that_does_not_fit_is_an_error_and_leaves_no_file() {
    let name = format!("shm:/atoll-huge-{}", std::process::id());
    assert!(matches!(ShmRegion::create(&name, 1 << 50), Err(FabricError::NoRoom { .. })));
    assert!(matches!(ShmRegion::open(&name), Err(FabricError::Absent(_))));
}

#[test]
fn what_a_verb_touches_of_a_sparse_region_has_its_pages_first_and_the_rest_has_none() {
    let name = format!("shm:/atoll-sparse-{}", std::process::id());
    let pages = || {
        use std::os::unix::fs::MetadataExt;
        std::fs::metadata(format!("/dev/shm/atoll.atoll-sparse-{}", std::process::id())).unwrap().blocks() * 512
    };
    const BYTES: u64 = 64 << 20;
    let region = Arc::new(ShmRegion::create_sparse(&name, BYTES, 4096).unwrap());
    let opened = ShmRegion::open_sparse(&name);
    assert!(pages() <= 2 << 20, "{} bytes", pages());
    let endpoint = ShmEndpoint::new(region.clone());
    let add = |endpoint: &ShmEndpoint, offset| {
        let mut batch = Batch::new();
        let found = batch.fetch_and_add(Address::new(0, 0, offset), 1);
        crate::run_ready(endpoint.post(&mut batch)).map(|()| batch.word(found))
    };
    let provided = endpoint.provided(0);
    assert_eq!((add(&endpoint, 40 << 20), add(&endpoint, 40 << 20)), (Ok(0), Ok(1)));
    assert!(pages() <= 6 << 20, "{} bytes", pages());
    assert_eq!(endpoint.provided(0), provided, "there is a gap");
    let other = ShmEndpoint::new(Arc::new(opened.unwrap()));
    assert_eq!((add(&other, 40 << 20), add(&other, 0)), (Ok(2), Ok(0)));
    assert!(matches!(add(&endpoint, BYTES), Err(VerbError::Unreachable(_))));
    assert!(region.reserve(0, BYTES));
    ShmRegion::remove(&name).unwrap();
    assert_eq!((endpoint.provided(0), add(&endpoint, BYTES - 8)), (BYTES, Ok(0)));
}

#[test]
fn a_fork_is_told_so_and_changes_nothing() {
    let name = format!("shm:/atoll-fork-{}", std::process::id());
    let region = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
    let endpoint = ShmEndpoint::new(region.clone());
    let add = |endpoint: &ShmEndpoint| {
        let mut batch = Batch::new();
        let found = batch.fetch_and_add(Address::new(0, 0, 8), 1);
        crate::run_ready(endpoint.post(&mut batch)).map(|()| batch.word(found))
    };
    assert_eq!(add(&endpoint), Ok(0));
    let status = fork::in_fork(|| {
        let refused = add(&endpoint) == Err(VerbError::Forked);
        let again = add(&ShmEndpoint::new(region.clone())) == Ok(1);
        if refused && again { 7 } else { 8 }
    });
    ShmRegion::remove(&name).unwrap();
    assert_eq!(status.unwrap(), 7);
    assert_eq!(add(&endpoint), Ok(2), "the parent goes on");
}

#[test]
fn an_endpoint_lives_until_it_is_dropped_whichever_mapping_asks() {
    let name = format!("shm:/atoll-lives-{}", std::process::id());
    let regions = [ShmRegion::create(&name, 1 << 16).unwrap(), ShmRegion::open(&name).unwrap()].map(Arc::new);
    ShmRegion::remove(&name).unwrap();
    let asked = |who: Identity| regions.clone().map(|region| crate::run_ready(ShmEndpoint::new(region).is_dead(who)));
    let endpoints = [0, 0, 1].map(|region: usize| ShmEndpoint::new(regions[region].clone()));
    let who = endpoints.each_ref().map(Endpoint::identity);
    assert!(who[0] != who[1] && who[1] != who[2] && who[0] != who[2]);
    for who in who {
        assert_eq!(asked(who), [Ok(false), Ok(false)]);
    }
    let peers = regions[0].peers();
    assert_eq!((peers.pid(who[2]), peers.pids()), (Some(std::process::id()), vec![std::process::id()]));
    drop(endpoints);
    for who in who.into_iter().chain([Identity::NOBODY]) {
        assert_eq!(asked(who), [Ok(true), Ok(true)]);
    }
}

#[test]
fn an_exported_region_whose_owner_was_killed_as_it_made_it_is_absent() {
    let name = format!("shm:/atoll-half-made-{}", std::process::id());
    let region = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
    let [owner, other] = [(); 2].map(|()| ShmEndpoint::new(region.clone()));
    let first = owner.export(RegionAttributes { lifetime: Lifetime::Process, ..region.attributes() }).unwrap();
    let node = first.compute_node().unwrap();
    let half_made = path_of(&export_name(&name, (node, 1))).unwrap();
    std::fs::File::create(half_made).unwrap();
    assert!(other.reach_export(first).is_ok());
    let refused = other.reach_export(Address::on_compute(node, 1, 0));
    drop(owner);
    ShmRegion::remove(&name).unwrap();
    assert!(matches!(refused, Err(VerbError::ExportAbsent(_))), "{refused:?}");
}

#[test]
fn a_region_is_not_taken_for_an_earlier_one_that_had_its_address() {
    let region = Arc::new(ShmRegion::anonymous(1 << 16).unwrap());
    let [first, second, other] = [(); 3].map(|()| ShmEndpoint::new(region.clone()));
    let wanted = RegionAttributes { lifetime: Lifetime::Process, ..region.attributes() };
    let add = |endpoint: &ShmEndpoint, at: Address| {
        let mut batch = Batch::new();
        batch.fetch_and_add(at, 5);
        crate::run_ready(endpoint.post(&mut batch))
    };
    let at = first.export(wanted).unwrap();
    assert_eq!(other.reach_export_if(at, 5), Ok(false));
    assert!(matches!(add(&other, at), Err(VerbError::Unreachable(_))), "it was not reached");
    assert_eq!(other.reach_export_if(at, 0), Ok(true));
    add(&other, at).unwrap();
    drop(first);
    assert_eq!(second.export(wanted).unwrap(), at, "the number is lent again");
    assert_eq!(other.reach_export_if(at, 5), Ok(false));
    assert_eq!(add(&other, at), Err(VerbError::PeerDead), "what it has reached has ended");
    assert_eq!(other.reach_export_if(at, 0), Ok(true));
    add(&other, at).unwrap();
    assert_eq!(second.reach_export_if(at, 5), Ok(true));
}

/// So a client that was told by a verb that a region has ended is told the same by the next call.
#[test]
fn a_region_that_is_marked_as_ended_is_reached_no_more_although_it_has_its_name() {
    let name = format!("shm:/atoll-marked-{}", std::process::id());
    let region = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
    let [owner, other] = [(); 2].map(|()| ShmEndpoint::new(region.clone()));
    let at = owner.export(RegionAttributes { lifetime: Lifetime::Process, ..region.attributes() }).unwrap();
    other.reach_export(at).unwrap();
    owner.exports.region(at.compute_node().unwrap(), at.region()).unwrap().mark_ended();
    let read = crate::run_ready(other.read(at, crate::Buffer::sized(8)));
    let (reached, reached_if) = (other.reach_export(at), other.reach_export_if(at, 0));
    drop(owner);
    ShmRegion::remove(&name).unwrap();
    assert!(matches!(read, Err(VerbError::PeerDead)), "{read:?}");
    assert!(matches!(reached, Err(VerbError::ExportAbsent(_))), "{reached:?}");
    assert!(matches!(reached_if, Err(VerbError::ExportAbsent(_))), "{reached_if:?}");
}

#[test]
fn what_follows_a_region_of_a_killed_process_hears_that_it_ended_before_others_do() {
    let name = format!("shm:/atoll-followed-{}", std::process::id());
    let region = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
    let [follower, other] = [(); 2].map(|()| ShmEndpoint::new(region.clone()));
    let (at, told) = (Address::new(0, 0, 8), Address::new(0, 0, 16));
    let wait_for = |endpoint: &ShmEndpoint, at: Address| loop {
        let mut batch = Batch::new();
        let word = batch.read_word(at);
        crate::run_ready(endpoint.post(&mut batch)).unwrap();
        if batch.word(word) != 0 {
            break batch.word(word);
        }
        std::thread::yield_now();
    };
    let write = |endpoint: &ShmEndpoint, at: Address, value: u64| {
        let mut batch = Batch::new();
        batch.write_word(at, value);
        crate::run_ready(endpoint.post(&mut batch)).unwrap();
    };
    let attributes = region.attributes();
    let status = std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            fork::in_fork(|| {
                let owner = ShmEndpoint::new(Arc::new(ShmRegion::open(&name).unwrap()));
                let wanted = RegionAttributes { lifetime: Lifetime::Process, bytes: 4096, ..attributes };
                let exported = owner.export(wanted).unwrap();
                write(&owner, at, exported.to_bits());
                wait_for(&owner, told);
                // As killed: nothing of it is dropped.
                std::mem::forget(owner);
                9
            })
        });
        let exported = Address::from_bits(wait_for(&follower, at));
        follower.follow(exported).unwrap();
        other.reach_export(exported).unwrap();
        write(&other, exported.add(8), 5);
        assert_eq!(follower.own_word(exported.add(8)), Some(5));
        write(&other, told, 1);
        let status = owner.join().unwrap();
        assert_eq!(follower.own_word(exported.add(8)), Some(5), "nobody was told yet that it has ended");
        let gone = other.reach_export(exported);
        assert!(matches!(gone, Err(VerbError::ExportAbsent(_))), "{gone:?}");
        assert_eq!(follower.own_word(exported.add(8)), None);
        assert!(follower.follow(exported).is_err());
        status
    });
    ShmRegion::remove(&name).unwrap();
    assert_eq!(status.unwrap(), 9);
}

#[test]
fn processes_of_a_host_find_each_others_memory_and_the_last_removes_it() {
    let (kind, name) = (format!("test{}", std::process::id()), "found");
    let paths = || {
        let names = std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|found| found.to_string_lossy().starts_with(&format!("atoll-{kind}-"))).count()
    };
    let first = Arc::new(HostMemory::of_host(&kind, name, 1000, 1000).unwrap());
    let user = HostUser::new(first.clone());
    let who = user.identity();
    first.word(999).store(7, Ordering::Relaxed);
    let status = fork::in_fork(|| {
        let found = Arc::new(HostMemory::of_host(&kind, name, 1000, 1000).unwrap());
        let mut words = [0; 2];
        found.load(998, &mut words);
        found.store_bytes(3, b"of the other one");
        found.word(5).store(HostUser::new(found.clone()).identity().bits().into(), Ordering::Relaxed);
        found.word(6).store(u64::from(found.is_dead(who) || user.identity() != Identity::NOBODY), Ordering::Relaxed);
        u8::from(words == [0, 7])
    });
    assert_eq!(status.unwrap(), 1);
    let mut bytes = [0; 16];
    first.load_bytes(3, &mut bytes);
    assert_eq!(&bytes, b"of the other one");
    let [other, is_dead] = [5, 6].map(|word| first.word(word).load(Ordering::Relaxed));
    assert!(first.is_dead(Identity::from_bits(other as u32)) && is_dead == 0);
    assert!(matches!(HostMemory::of_host(&kind, name, 2000, 8), Err(FabricError::BadSize { .. })));
    assert!(HostMemory::find(&kind, "another").unwrap().is_none());
    drop(user);
    assert_eq!(paths(), 1);
    drop(first);
    assert_eq!(paths(), 0, "the last user removes it");
}

#[test]
fn what_killed_processes_leave_is_removed_and_nothing_else_of_that_name() {
    let kind = format!("left{}", std::process::id());
    let path = |name| super::host_memory::path_of_kind(&kind, name);
    let status = fork::in_fork(|| {
        std::mem::forget(HostMemory::of_host(&kind, "killed", 100, 100).unwrap());
        3
    });
    assert_eq!(status.unwrap(), 3);
    let used = HostMemory::of_host(&kind, "used", 100, 100);
    std::fs::write(path("foreign"), [1; 8192]).unwrap();
    let made = HostMemory::of_host(&kind, "made", 100, 100);
    let left = ["killed", "used", "foreign", "made"].map(|name| std::path::Path::new(&path(name)).exists());
    let refused = HostMemory::find(&kind, "foreign");
    std::fs::remove_file(path("foreign")).unwrap();
    assert_eq!(left, [false, true, true, true]);
    assert!(matches!(refused, Err(FabricError::BadName(_))));
    drop((used, made));
}

#[test]
fn an_endpoint_of_memory_without_a_name_lives_until_it_is_dropped() {
    let region = Arc::new(ShmRegion::anonymous(1 << 16).unwrap());
    let [one, other] = [(); 2].map(|()| ShmEndpoint::new(region.clone()));
    let who = one.identity();
    assert_eq!(crate::run_ready(other.is_dead(who)), Ok(false));
    drop(one);
    assert_eq!(crate::run_ready(other.is_dead(who)), Ok(true));
}

#[test]
fn a_fork_does_not_keep_its_parent_alive() {
    let name = format!("shm:/atoll-parent-{}", std::process::id());
    let observer = ShmEndpoint::new(Arc::new(ShmRegion::create(&name, 1 << 16).unwrap()));
    let at = Address::new(0, 0, 8);
    let poke = |endpoint: &ShmEndpoint, at: Address, value: u64| {
        let mut batch = Batch::new();
        batch.write_word(at, value);
        crate::run_ready(endpoint.post(&mut batch)).unwrap();
    };
    let peek = |endpoint: &ShmEndpoint, at: Address| {
        let mut batch = Batch::new();
        let word = batch.read_word(at);
        crate::run_ready(endpoint.post(&mut batch)).unwrap();
        batch.word(word)
    };
    // The child opens the region for itself and has a child of its own, which lives until it is
    // told to end.
    let status = fork::in_fork(|| {
        let parent = ShmEndpoint::new(Arc::new(ShmRegion::open(&name).unwrap()));
        poke(&parent, at, parent.identity().bits().into());
        fork::leave_fork(|| {
            let own = ShmEndpoint::new(Arc::new(ShmRegion::open(&name).unwrap()));
            let refused = parent.identity() == Identity::NOBODY || own.identity() == Identity::NOBODY;
            poke(&own, at.add(8), if refused && own.identity() != Identity::NOBODY { 1 } else { 2 });
            while peek(&own, at.add(16)) == 0 {
                std::thread::yield_now();
            }
        });
        while peek(&parent, at.add(8)) == 0 {
            std::thread::yield_now();
        }
        7
    });
    let who = Identity::from_bits(peek(&observer, at) as u32);
    let is_dead = crate::run_ready(observer.is_dead(who));
    let grandchild = peek(&observer, at.add(8));
    poke(&observer, at.add(16), 1);
    ShmRegion::remove(&name).unwrap();
    assert_eq!((status.unwrap(), grandchild, is_dead), (7, 1, Ok(true)));
}

#[test]
fn endpoints_of_a_fork_have_random_words_of_their_own() {
    let region = Arc::new(ShmRegion::anonymous(1 << 16).unwrap());
    let name = format!("shm:/atoll-random-{}", std::process::id());
    let shared = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
    ShmRegion::remove(&name).unwrap();
    // What the thread has drawn before must not decide what it draws next.
    let _ = ShmEndpoint::new(region.clone()).random();
    let status = fork::in_fork(|| {
        let mut batch = Batch::new();
        batch.write_word(Address::new(0, 0, 8), ShmEndpoint::new(region.clone()).random());
        crate::run_ready(ShmEndpoint::new(shared.clone()).post(&mut batch)).map_or(8, |()| 7)
    });
    assert_eq!(status.unwrap(), 7);
    let mut batch = Batch::new();
    let word = batch.read_word(Address::new(0, 0, 8));
    crate::run_ready(ShmEndpoint::new(shared).post(&mut batch)).unwrap();
    assert_ne!(batch.word(word), ShmEndpoint::new(region).random());
}

#[test]
fn what_one_mapping_writes_another_reads() {
    let name = format!("shm:/atoll-two-{}", std::process::id());
    let first = Arc::new(ShmRegion::create(&name, 1 << 16).unwrap());
    assert!(matches!(ShmRegion::create(&name, 1 << 16), Err(FabricError::Exists(_))));
    let second = Arc::new(ShmRegion::open(&name).unwrap());
    ShmRegion::remove(&name).unwrap();
    let (first, second) = (ShmEndpoint::new(first), ShmEndpoint::new(second));
    let mut batch = Batch::new();
    batch.write_word(Address::new(0, 0, 8), 42);
    crate::run_ready(first.post(&mut batch)).unwrap();
    let mut batch = Batch::new();
    let word = batch.read_word(Address::new(0, 0, 8));
    crate::run_ready(second.post(&mut batch)).unwrap();
    assert_eq!(batch.word(word), 42);
}
