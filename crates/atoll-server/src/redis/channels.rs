//! Channels: which connections have subscribed to what, and how a message comes to them.
//!
//! A message is posted to each subscriber's connection, and the worker of that connection sends it
//! (`Handle::post`). So a publisher never waits for a subscriber. A subscriber that takes too
//! little ends, at the output limit of class `pubsub`. All messages are posted under one lock:
//! every subscriber gets them in the same order.
//!
//! Channels are those of one server. Other servers of the pool have their own.
//!
//! Invariants:
//! - A connection is a subscriber of a name exactly if the name is among its own.
//! - A name without subscribers, and a connection without names, have no entry.

use super::command::CommandError;
use super::glob;
use super::peers::Peer;
use super::resp::{Protocol, Reply};
use crate::serve::Output;
use crate::serve::limits::OutputLimit;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What the names of one connection may take, all together.
const NAMES_BYTES_MAX: usize = 64 << 20;
/// What a name takes besides its own bytes, about.
const NAME_BYTES: usize = 192;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Channel,
    /// All channels that match it.
    Pattern,
    /// A channel of another name space.
    Shard,
}

const KINDS: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];

impl Kind {
    /// How the names of its commands and pushes begin.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Channel => "",
            Self::Pattern => "p",
            Self::Shard => "s",
        }
    }
}

/// How many names of each kind a connection has subscribed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) channels: usize,
    pub(crate) patterns: usize,
    pub(crate) shards: usize,
}

impl Counts {
    /// The number that replies about a kind show: channels and patterns count together.
    pub(crate) fn shown(self, kind: Kind) -> usize {
        if kind == Kind::Shard { self.shards } else { self.channels + self.patterns }
    }
}

type Name = Arc<[u8]>;
type Subscribers = BTreeMap<u64, Arc<Peer>>;

/// The names of one connection.
#[derive(Debug, Default)]
struct Own {
    names: [BTreeSet<Name>; 3],
    bytes: usize,
}

impl Own {
    fn counts(&self) -> Counts {
        let [channels, patterns, shards] = self.names.each_ref().map(BTreeSet::len);
        Counts { channels, patterns, shards }
    }
}

#[derive(Default)]
struct State {
    subscribers: [HashMap<Name, Subscribers>; 3],
    own: HashMap<u64, Own>,
}

impl State {
    fn remove_subscriber(&mut self, kind: Kind, name: &[u8], id: u64) {
        let all = &mut self.subscribers[kind as usize];
        let subscribers = all.get_mut(name).expect("a connection's name has subscribers");
        subscribers.remove(&id);
        if subscribers.is_empty() {
            all.remove(name);
        }
    }
}

/// The channels of a server.
#[derive(Default)]
pub(crate) struct Channels(Mutex<State>);

/// A message as a push, in the form of that protocol.
fn encoded(protocol: Protocol, parts: &[&[u8]]) -> Vec<u8> {
    let mut output = Output::default();
    let mut reply = Reply::new(&mut output, protocol);
    reply.push(parts.len());
    parts.iter().for_each(|part| reply.bulk(part));
    output.to_vec()
}

/// Posts a message to subscribers; returns how many they are.
fn post(subscribers: &Subscribers, parts: &[&[u8]], limit: OutputLimit) -> usize {
    let (mut resp2, mut resp3) = (None, None);
    for peer in subscribers.values() {
        let bytes = match peer.is_resp3() {
            false => resp2.get_or_insert_with(|| encoded(Protocol::Resp2, parts)),
            true => resp3.get_or_insert_with(|| encoded(Protocol::Resp3, parts)),
        };
        peer.handle.post(bytes, limit);
    }
    subscribers.len()
}

impl Channels {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that a connection may subscribe to these names too.
    pub(crate) fn check<'n>(&self, names: impl Iterator<Item = &'n [u8]>, id: u64) -> Result<(), CommandError> {
        let present = self.state().own.get(&id).map_or(0, |own| own.bytes);
        let wanted: usize = names.map(|name| name.len() + NAME_BYTES).sum();
        match present + wanted > NAMES_BYTES_MAX {
            true => Err("ERR the channels and patterns of this connection would take more than 64 MiB".into()),
            false => Ok(()),
        }
    }

    /// A connection subscribes.
    pub(crate) fn subscribe(&self, kind: Kind, name: &[u8], peer: &Arc<Peer>) -> Counts {
        let mut state = self.state();
        let State { subscribers, own } = &mut *state;
        let own = own.entry(peer.handle.id).or_default();
        if !own.names[kind as usize].contains(name) {
            let all = &mut subscribers[kind as usize];
            let name = all.get_key_value(name).map_or_else(|| Name::from(name), |(name, _)| name.clone());
            own.bytes += name.len() + NAME_BYTES;
            own.names[kind as usize].insert(name.clone());
            all.entry(name).or_default().insert(peer.handle.id, peer.clone());
        }
        peer.handle.set_subscriber(true);
        own.counts()
    }

    /// A connection subscribes to that name no longer.
    pub(crate) fn unsubscribe(&self, kind: Kind, name: &[u8], peer: &Peer) -> Counts {
        let (mut state, id) = (self.state(), peer.handle.id);
        let Some(own) = state.own.get_mut(&id) else { return Counts::default() };
        let was_own = own.names[kind as usize].remove(name);
        if was_own {
            own.bytes -= name.len() + NAME_BYTES;
        }
        let counts = own.counts();
        if was_own {
            state.remove_subscriber(kind, name, id);
        }
        if counts == Counts::default() {
            state.own.remove(&id);
            peer.handle.set_subscriber(false);
        }
        counts
    }

    /// A connection subscribes to nothing any more.
    pub(crate) fn leave(&self, peer: &Peer) {
        if !peer.handle.is_subscriber() {
            return;
        }
        let (mut state, id) = (self.state(), peer.handle.id);
        if let Some(own) = state.own.remove(&id) {
            for (kind, names) in KINDS.into_iter().zip(own.names) {
                names.iter().for_each(|name| state.remove_subscriber(kind, name, id));
            }
        }
        peer.handle.set_subscriber(false);
    }

    /// Posts a message to the subscribers of a channel, and of patterns that match it; returns how
    /// many there are.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8], limit: OutputLimit) -> usize {
        let [channels, patterns, _] = &self.state().subscribers;
        let mut count = channels.get(channel).map_or(0, |all| post(all, &[b"message", channel, message], limit));
        for (pattern, all) in patterns {
            if glob::matches(pattern, channel) {
                count += post(all, &[b"pmessage", pattern, channel, message], limit);
            }
        }
        count
    }

    /// Posts a message to the subscribers of a shard channel; returns how many there are.
    pub(crate) fn publish_shard(&self, channel: &[u8], message: &[u8], limit: OutputLimit) -> usize {
        let all = &self.state().subscribers[Kind::Shard as usize];
        all.get(channel).map_or(0, |all| post(all, &[b"smessage", channel, message], limit))
    }

    /// The names of that kind that a connection has subscribed to.
    pub(crate) fn names_of(&self, kind: Kind, id: u64) -> Vec<Name> {
        self.state().own.get(&id).map_or_else(Vec::new, |own| own.names[kind as usize].iter().cloned().collect())
    }

    /// How many names a connection has subscribed to.
    pub(crate) fn counts(&self, id: u64) -> Counts {
        self.state().own.get(&id).map_or_else(Counts::default, Own::counts)
    }

    /// The names of that kind that have subscribers and match the pattern.
    pub(crate) fn active(&self, kind: Kind, pattern: &[u8]) -> Vec<Name> {
        let all = &self.state().subscribers[kind as usize];
        all.keys().filter(|name| glob::matches(pattern, name)).cloned().collect()
    }

    /// How many names of that kind have subscribers.
    pub(crate) fn active_count(&self, kind: Kind) -> usize {
        self.state().subscribers[kind as usize].len()
    }

    /// How many connections have subscribed to a name.
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.state().subscribers[kind as usize].get(name).map_or(0, BTreeMap::len)
    }
}
