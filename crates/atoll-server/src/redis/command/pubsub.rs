//! Commands on channels: SUBSCRIBE and its relatives, PUBLISH, PUBSUB.
//!
//! Messages stay within this server, for every server of a pool has channels of its own. Shard
//! channels are a second name space; no cluster decides where they are. A connection of RESP2 that
//! has subscribed may only subscribe, unsubscribe, PING, QUIT and RESET.
//!
//! Differences from Redis 7.0: what a connection publishes to itself comes behind the reply of
//! PUBLISH, and behind that of EXEC, as in Redis 7.2; `CLIENT REPLY OFF` does not hold messages
//! back, as in Redis 7.2. The names that a connection has subscribed to have at most 64 MiB.

use super::error::unknown_or_arity;
use super::{CommandError, Context, Id, Outcome, subcommand};
use crate::redis::channels::{Counts, Kind};
use crate::redis::resp::Args;
use atoll_cache::Engine;

/// What a command of this name subscribes to.
fn kind(name: &str) -> Kind {
    match name {
        "psubscribe" | "punsubscribe" => Kind::Pattern,
        "ssubscribe" | "sunsubscribe" => Kind::Shard,
        _ => Kind::Channel,
    }
}

/// Says what a connection has subscribed to now.
fn confirm<G: Engine>(c: &mut Context<'_, G>, verb: &str, name: Option<&[u8]>, counts: Counts) {
    let kind = kind(c.spec.name);
    c.reply.push(3);
    c.reply.bulk(format!("{}{verb}", kind.prefix()).as_bytes());
    match name {
        Some(name) => c.reply.bulk(name),
        None => c.reply.null(),
    }
    c.reply.count(counts.shown(kind));
}

/// `SUBSCRIBE channel...`, `PSUBSCRIBE pattern...`, `SSUBSCRIBE channel...`
pub async fn subscribe<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (kind, peer) = (kind(c.spec.name), c.session.peer.clone());
    if kind == Kind::Shard && c.session.is_executing {
        return Err("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into());
    }
    c.instance.channels.check(c.args.from(1), peer.handle.id)?;
    // Messages have the form that the connection has now.
    c.session.publish();
    for name in c.args.from(1) {
        let counts = c.instance.channels.subscribe(kind, name, &peer);
        confirm(c, "subscribe", Some(name), counts);
    }
    c.session.is_subscriber = true;
    Ok(())
}

/// `UNSUBSCRIBE [channel...]`, `PUNSUBSCRIBE [pattern...]`, `SUNSUBSCRIBE [channel...]`
pub async fn unsubscribe<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (kind, peer) = (kind(c.spec.name), c.session.peer.clone());
    let all = match c.args.len() {
        1 => c.instance.channels.names_of(kind, peer.handle.id),
        _ => Vec::new(),
    };
    let names: Vec<&[u8]> =
        if c.args.len() == 1 { all.iter().map(|name| &**name).collect() } else { c.args.from(1).collect() };
    for name in &names {
        let counts = c.instance.channels.unsubscribe(kind, name, &peer);
        // What came before is sent before. While a transaction runs, only its own messages come.
        if !c.session.is_executing {
            peer.handle.take_posted(c.reply.output());
        }
        confirm(c, "unsubscribe", Some(name), counts);
    }
    if names.is_empty() {
        let counts = c.instance.channels.counts(peer.handle.id);
        confirm(c, "unsubscribe", None, counts);
    }
    c.session.is_subscriber = peer.handle.is_subscriber();
    Ok(())
}

/// `PUBLISH channel message`
pub async fn publish<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let limit = c.shared.limits.output(true);
    c.reply.count(c.instance.channels.publish(c.args.get(1), c.args.get(2), limit));
    Ok(())
}

/// `SPUBLISH channel message`
pub async fn spublish<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let limit = c.shared.limits.output(true);
    c.reply.count(c.instance.channels.publish_shard(c.args.get(1), c.args.get(2), limit));
    Ok(())
}

/// `PUBSUB subcommand ...`
pub async fn pubsub<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let channels = &c.instance.channels;
    match subcommand::called(c, Id::Pubsub) {
        name @ ("channels" | "shardchannels") => {
            let pattern = match c.args.len() {
                2 => b"*",
                3 => c.args.get(2),
                _ => return Err(unknown_or_arity("PUBSUB", c.args.get(1))),
            };
            let names = channels.active(if name == "channels" { Kind::Channel } else { Kind::Shard }, pattern);
            c.reply.array(names.len());
            names.iter().for_each(|name| c.reply.bulk(name));
        }
        name @ ("numsub" | "shardnumsub") => {
            let kind = if name == "numsub" { Kind::Channel } else { Kind::Shard };
            c.reply.array(2 * (c.args.len() - 2));
            for name in c.args.from(2) {
                c.reply.bulk(name);
                c.reply.count(channels.subscribers(kind, name));
            }
        }
        "numpat" => c.reply.count(channels.active_count(Kind::Pattern)),
        _ => return subcommand::help(c, Id::Pubsub),
    }
    Ok(())
}

/// Whether a connection of RESP2 that has subscribed may run this command.
pub(in crate::redis) fn is_for_subscribers(id: Id) -> bool {
    use Id::{Ping, Psubscribe, Punsubscribe, Quit, Reset, Ssubscribe, Subscribe, Sunsubscribe, Unsubscribe};
    let subscribing = matches!(id, Subscribe | Psubscribe | Ssubscribe | Unsubscribe | Punsubscribe | Sunsubscribe);
    subscribing || matches!(id, Ping | Quit | Reset)
}

/// Why it may not run another one.
pub(in crate::redis) fn refusal(id: Id, args: Args<'_>) -> CommandError {
    let name = subcommand::full_name(id, args);
    CommandError::Other(format!(
        "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this \
         context"
    ))
}
