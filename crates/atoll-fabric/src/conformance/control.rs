//! What the contract says of the control plane: see [`Fabric`].
//!
//! The calls block, so that a case is a function. Its verbs are run by the fixture, which knows how
//! a future over its endpoints is driven.

use super::{fetch_and_add, read, word, write};
use crate::{
    Address, Endpoint, Fabric, FabricError, Hold, Identity, Kind, Lifetime, Reach, Region, RegionAttributes, Sharing,
    VerbError,
};
use std::future::Future;
use std::pin::Pin;

const BYTES: u64 = 1 << 16;

/// An endpoint of a fabric.
pub type EndpointOf<F> = <<F as Fabric>::Reach as Reach>::Endpoint;

/// What is done with an endpoint; gives a word.
pub type Done = Pin<Box<dyn Future<Output = u64>>>;

/// A fabric without any region, and who runs futures over its endpoints.
pub trait ControlFixture {
    /// The fabric.
    type Fabric: Fabric;

    /// Runs `plays` with a fabric that has no region, which all processes of `plays` find by the
    /// same address, if the fabric has addresses. What it leaves behind is removed.
    fn with(&self, plays: &dyn Fn(&Self::Fabric));

    /// Runs what is done with an endpoint to its end.
    fn done(&self, done: Done) -> u64;
}

/// Runs every case.
pub fn run<C: ControlFixture>(fixture: &C) {
    fixture.with(&|fabric| a_region_is_there_from_its_creation_to_its_removal(fixture, fabric));
    fixture.with(&|fabric| a_further_node_is_reached_once_it_is_admitted(fixture, fabric));
    fixture.with(&|fabric| a_region_that_is_alone_is_nobody_elses(fixture, fabric));
    fixture.with(&|fabric| compute_nodes_are_those_that_export_and_live(fabric));
    fixture.with(&|fabric| an_endpoint_is_known_by_an_identity_until_it_is_gone(fixture, fabric));
}

/// Whether another reach can open what one has created.
fn has_address<F: Fabric>(fabric: &F) -> bool {
    fabric.address().is_some()
}

fn a_region_is_there_from_its_creation_to_its_removal<C: ControlFixture>(fixture: &C, fabric: &C::Fabric) {
    assert!(matches!(fabric.open(0), Err(FabricError::Absent(_))), "no region was created");
    let home = fabric.create(0, BYTES, BYTES).expect("there is room");
    let attributes = home.attributes();
    assert_eq!(attributes.bytes, BYTES);
    let reach = fabric.reach(home);
    let endpoint = reach.endpoint();
    assert_eq!(endpoint.region_attributes(0), Some(attributes), "an endpoint knows the same region");
    assert_eq!(endpoint.region_attributes(1), None, "no other node is reached");
    assert!(endpoint.boot() != Some(0), "no boot has this number");
    let wrote = fixture.done(Box::pin(async move {
        write(&endpoint, word(3), 7).await;
        read(&endpoint, word(4)).await
    }));
    assert_eq!(wrote, 0, "a new region is zero");
    if has_address(fabric) {
        assert!(matches!(fabric.create(0, BYTES, BYTES), Err(FabricError::Exists(_))));
        let other = fabric.reach(fabric.open(0).expect("it was created")).endpoint();
        assert_eq!(fixture.done(Box::pin(async move { read(&other, word(3)).await })), 7);
        let (words, bytes) = fabric.beginning(0).expect("it was created");
        assert_eq!((words[3], bytes), (7, BYTES));
        fabric.remove(0).expect("it is there");
        assert!(matches!(fabric.open(0), Err(FabricError::Absent(_))), "its name is gone");
        assert!(matches!(fabric.remove(0), Err(FabricError::Absent(_))), "its name is gone");
    }
    assert_eq!(reach.memory_nodes(), [0]);
}

fn a_further_node_is_reached_once_it_is_admitted<C: ControlFixture>(fixture: &C, fabric: &C::Fabric) {
    let reach = fabric.reach(fabric.create(0, BYTES, BYTES).expect("there is room"));
    let node = fabric.create(2, BYTES, BYTES).expect("there is room");
    let at = Address::new(2, 0, 64);
    let add =
        |endpoint: EndpointOf<C::Fabric>| fixture.done(Box::pin(async move { fetch_and_add(&endpoint, at, 1).await }));
    let apart = reach.apart();
    assert!(apart.admit(2, node.clone()) && !apart.admit(2, node.clone()), "a node is admitted once");
    assert_eq!(add(apart.endpoint()), 0);
    assert_eq!((reach.memory_nodes(), apart.memory_nodes()), (vec![0], vec![0, 2]));
    let (before, kept) = (reach.endpoint(), reach.clone());
    assert!(reach.admit(2, node));
    assert_eq!(add(before), 1, "an endpoint that was made before reaches it, too");
    assert!(kept.region(2).is_some() && kept.region(1).is_none(), "a clone reaches the same");
    let absent = reach.endpoint();
    let outcome = fixture.done(Box::pin(async move {
        u64::from(matches!(absent.reach(1).await, Err(VerbError::NodeAbsent(absent)) if absent.node == 1))
    }));
    assert_eq!(outcome, 1, "a node that was not created cannot be reached");
}

fn a_region_that_is_alone_is_nobody_elses<C: ControlFixture>(_: &C, fabric: &C::Fabric) {
    if !has_address(fabric) {
        return;
    }
    assert!(matches!(fabric.hold(0, Sharing::Shared), Err(FabricError::Absent(_))), "no region was created");
    let home = fabric.create(0, BYTES, BYTES).expect("there is room");
    let hold = fabric.hold(0, Sharing::Shared).expect("it was created");
    assert!(hold.is_in_use().expect("it was created"), "this process has it open");
    assert!(fabric.open_alone(0).expect("it was created").is_none(), "another handle has it open");
    drop((home, hold));
    let hold = fabric.hold(0, Sharing::Alone).expect("it was created");
    assert!(!hold.is_in_use().expect("it was created"), "no handle has it open");
    let alone = fabric.open_alone(0).expect("it was created").expect("no other handle has it open");
    assert!(fabric.open_alone(0).expect("it was created").is_none());
    alone.share().expect("it is alone");
    fabric.open(0).expect("it is shared again");
}

fn compute_nodes_are_those_that_export_and_live<F: Fabric>(fabric: &F) {
    let reach = fabric.reach(fabric.create(0, BYTES, BYTES).expect("there is room"));
    let other = match has_address(fabric) {
        true => fabric.reach(fabric.open(0).expect("it was created")),
        false => reach.clone(),
    };
    let domain = reach.home().attributes().domain;
    let wanted = RegionAttributes { bytes: BYTES, kind: Kind::Host, domain, lifetime: Lifetime::Process };
    let endpoints = [reach.endpoint(), other.endpoint(), reach.endpoint(), other.endpoint()];
    assert_eq!((reach.compute_nodes(), other.compute_nodes()), (vec![], vec![]));
    let export = |endpoint: &EndpointOf<F>| endpoint.export(wanted).expect("there is room").compute_node();
    let mut nodes: Vec<u16> = endpoints[..3].iter().filter_map(export).collect();
    assert_eq!(export(&endpoints[2]), Some(nodes[2]), "a second region of the same node");
    nodes.sort_unstable();
    assert_eq!((reach.compute_nodes(), other.compute_nodes()), (nodes.clone(), nodes));
    drop(endpoints);
    assert_eq!((reach.compute_nodes(), other.compute_nodes()), (vec![], vec![]));
}

fn an_endpoint_is_known_by_an_identity_until_it_is_gone<C: ControlFixture>(fixture: &C, fabric: &C::Fabric) {
    let reach = fabric.reach(fabric.create(0, BYTES, BYTES).expect("there is room"));
    let [one, other] = [reach.endpoint(), reach.endpoint()];
    let who = one.identity();
    assert!(who != Identity::NOBODY && who != other.identity() && who == one.identity());
    let outcome = fixture.done(Box::pin(async move {
        let alive = other.is_dead(who).await;
        let spared = other.is_dead(other.identity()).await;
        drop(one);
        let dead = [other.is_dead(who).await, other.is_dead(Identity::NOBODY).await];
        u64::from((alive, spared, dead) == (Ok(false), Ok(false), [Ok(true), Ok(true)]))
    }));
    assert_eq!(outcome, 1, "an endpoint is dead exactly when it is gone");
}
