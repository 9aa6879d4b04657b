//! CLIENT and MONITOR: connections, their names, what is done to them, and what they do.
//!
//! `CLIENT KILL` ends another connection when its worker next looks at it: a command that runs at
//! that moment ends, those behind it do not run, and no reply is sent. `CLIENT NO-EVICT` changes
//! nothing, for no connection is evicted. `CLIENT NO-TOUCH` is noted and shown; lookups still count
//! as accesses. No command of this server blocks, so `CLIENT UNBLOCK` finds nothing to unblock.

use super::arguments::{integer, is};
use super::error::shown;
use super::{CommandError, Context, Id, Outcome, subcommand, tracking};
use crate::redis::pause::Pausing;
use crate::redis::peers::{Kind, Peer};
use crate::redis::session::Replies;
use atoll_cache::Engine;
use atoll_cache::cache::parse_integer;
use std::sync::Arc;
use std::time::Duration;

/// `CLIENT subcommand ...`
pub async fn client<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match subcommand::called(c, Id::Client) {
        "caching" => return tracking::caching(c),
        "getname" => match c.session.peer.names().own.as_slice() {
            b"" => c.reply.null(),
            name => c.reply.bulk(name),
        },
        "getredir" => c.reply.integer(c.session.redirect()),
        "id" => c.reply.integer(c.session.peer.handle.id as i64),
        "info" => {
            c.session.publish();
            let line = line(c, &c.session.peer);
            c.reply.text(&(line + "\n"));
        }
        "kill" => return kill(c),
        "list" => return list(c),
        "no-evict" => c.session.no_evict = on_or_off(c)?,
        "no-touch" => c.session.no_touch = on_or_off(c)?,
        "pause" => return pause(c),
        "reply" => return reply(c),
        "setinfo" => return set_info(c),
        "setname" => {
            c.session.peer.names().own = name(c.args.get(2), BAD_NAME)?;
            c.reply.ok();
        }
        "tracking" => return Box::pin(tracking::tracking(c)).await,
        "trackinginfo" => tracking::info(c),
        "unblock" => {
            integer(c.args.get(2))?;
            match c.args.len() {
                3 => {}
                4 if is(c.args.get(3), "timeout") || is(c.args.get(3), "error") => {}
                4 => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
                _ => return Err(CommandError::Arity("client|unblock")),
            }
            c.reply.yes(false);
        }
        "unpause" => {
            c.instance.pause.end();
            c.reply.ok();
        }
        _ => return subcommand::help(c, Id::Client),
    }
    Ok(())
}

/// `MONITOR`. As in Redis the second one of a connection has no reply.
pub async fn monitor<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.session.is_executing {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    if !c.session.is_monitor {
        c.session.is_monitor = true;
        c.instance.monitors.add(c.session.peer.clone());
        c.reply.ok();
    }
    Ok(())
}

/// Checks what a peer calls itself: it must fit on a line that `CLIENT LIST` prints.
pub(super) fn name(text: &[u8], error: &'static str) -> Result<Vec<u8>, CommandError> {
    if text.iter().all(u8::is_ascii_graphic) { Ok(text.to_vec()) } else { Err(error.into()) }
}

pub(super) const BAD_NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";

/// `CLIENT SETINFO (LIB-NAME | LIB-VER) text`
fn set_info<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (field, text) = (c.args.get(2), c.args.get(3));
    if is(field, "lib-name") {
        c.session.peer.names().library =
            name(text, "ERR lib-name cannot contain spaces, newlines or special characters.")?;
    } else if is(field, "lib-ver") {
        c.session.peer.names().version =
            name(text, "ERR lib-ver cannot contain spaces, newlines or special characters.")?;
    } else {
        return Err(CommandError::Other(format!("ERR Unrecognized option '{}'", shown(field, usize::MAX))));
    }
    c.reply.ok();
    Ok(())
}

/// The argument of a subcommand that is `ON` or `OFF`; the reply is written.
fn on_or_off<G: Engine>(c: &mut Context<'_, G>) -> Result<bool, CommandError> {
    let on = match c.args.get(2) {
        word if is(word, "on") => true,
        word if is(word, "off") => false,
        _ => return Err(CommandError::Syntax),
    };
    c.reply.ok();
    Ok(on)
}

fn kind(text: &[u8]) -> Result<Kind, CommandError> {
    Kind::named(text).ok_or_else(|| CommandError::Other(format!("ERR Unknown client type '{}'", shown(text, 128))))
}

/// What is known of a connection.
fn line<G: Engine>(c: &Context<'_, G>, peer: &Peer) -> String {
    c.instance.line(peer, c.shared)
}

/// `CLIENT LIST [TYPE type | ID id...]`
fn list<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    c.session.publish();
    let peers = &c.instance.peers;
    let listed = match c.args.len() {
        2 => peers.living(),
        4 if is(c.args.get(2), "type") => {
            let kind = kind(c.args.get(3))?;
            peers.living().into_iter().filter(|peer| peer.kind() == kind).collect()
        }
        4.. if is(c.args.get(2), "id") => {
            let mut listed = Vec::new();
            for text in c.args.from(3) {
                let id = parse_integer(text).ok_or("ERR Invalid client ID")?;
                listed.extend(u64::try_from(id).ok().and_then(|id| peers.get(id)));
            }
            listed
        }
        _ => return Err(CommandError::Syntax),
    };
    let text: String = listed.iter().map(|peer| line(c, peer) + "\n").collect();
    c.reply.text(&text);
    Ok(())
}

/// Which connections `CLIENT KILL` ends.
#[derive(Default)]
struct Filter<'a> {
    id: Option<u64>,
    kind: Option<Kind>,
    peer: Option<&'a [u8]>,
    local: Option<&'a [u8]>,
    /// The number of a user.
    user: Option<u64>,
    age_s_min: Option<u64>,
    spares_own: bool,
}

impl<'a> Filter<'a> {
    fn parse<G: Engine>(c: &Context<'a, G>) -> Result<Self, CommandError> {
        if c.args.len() == 3 {
            return Ok(Self { peer: Some(c.args.get(2)), ..Self::default() });
        }
        let (mut filter, mut rest) = (Self { spares_own: true, ..Self::default() }, c.args.from(2));
        while let Some(word) = rest.next() {
            let value = rest.next().ok_or(CommandError::Syntax)?;
            match () {
                () if is(word, "id") => {
                    let id = parse_integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                    filter.id = Some(id.ok_or("ERR client-id should be greater than 0")?);
                }
                () if is(word, "type") => filter.kind = Some(kind(value)?),
                () if is(word, "addr") => filter.peer = Some(value),
                () if is(word, "laddr") => filter.local = Some(value),
                () if is(word, "user") => {
                    let found = c.instance.users.get(value).map(|named| named.id);
                    let why = || CommandError::Other(format!("ERR No such user '{}'", shown(value, usize::MAX)));
                    filter.user = Some(found.ok_or_else(why)?);
                }
                () if is(word, "maxage") => {
                    let age = parse_integer(value).ok_or("ERR maxage is not an integer or out of range")?;
                    let age = u64::try_from(age).ok().filter(|age| *age > 0);
                    filter.age_s_min = Some(age.ok_or("ERR maxage should be greater than 0")?);
                }
                () if is(word, "skipme") && is(value, "yes") => filter.spares_own = true,
                () if is(word, "skipme") && is(value, "no") => filter.spares_own = false,
                () => return Err(CommandError::Syntax),
            }
        }
        Ok(filter)
    }

    fn finds(&self, peer: &Peer, own: u64, now_ms: u64) -> bool {
        let handle = &peer.handle;
        let age_s = now_ms.saturating_sub(handle.accepted_ms) / 1000;
        self.id.is_none_or(|id| handle.id == id)
            && self.kind.is_none_or(|kind| peer.kind() == kind)
            && self.peer.is_none_or(|address| handle.peer.as_bytes() == address)
            && self.local.is_none_or(|address| handle.local.as_bytes() == address)
            && self.user.is_none_or(|id| peer.user().0 == id)
            && self.age_s_min.is_none_or(|least| age_s >= least)
            && !(self.spares_own && handle.id == own)
    }
}

/// `CLIENT KILL address:port`, `CLIENT KILL filter value...`
fn kill<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let filter = Filter::parse(c)?;
    let (own, now_ms) = (c.session.peer.handle.id, c.shared.uptime_ms());
    let found: Vec<Arc<Peer>> =
        c.instance.peers.living().into_iter().filter(|peer| filter.finds(peer, own, now_ms)).collect();
    let mut ended = 0;
    for peer in found {
        if peer.handle.id == own {
            // Its reply is sent.
            c.session.closing = true;
            ended += 1;
        } else {
            ended += usize::from(peer.handle.end());
        }
    }
    match (c.args.len(), ended) {
        (3, 0) => return Err("ERR No such client".into()),
        (3, _) => c.reply.ok(),
        _ => c.reply.count(ended),
    }
    Ok(())
}

/// `CLIENT PAUSE milliseconds [WRITE | ALL]`
fn pause<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let pausing = match c.args.len() {
        3 => Pausing::All,
        4 if is(c.args.get(3), "write") => Pausing::Writes,
        4 if is(c.args.get(3), "all") => Pausing::All,
        4 => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        _ => return Err(CommandError::Arity("client|pause")),
    };
    let ms = parse_integer(c.args.get(2)).ok_or("ERR timeout is not an integer or out of range")?;
    let ms = u64::try_from(ms).map_err(|_| CommandError::from("ERR timeout is negative"))?;
    c.instance.pause.begin(pausing, Duration::from_millis(ms));
    c.reply.ok();
    Ok(())
}

/// `CLIENT REPLY (ON | OFF | SKIP)`
fn reply<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    match c.args.get(2) {
        word if is(word, "on") => {
            c.session.replies = Replies::Sent;
            c.reply.ok();
        }
        word if is(word, "off") => c.session.replies = Replies::Off,
        word if is(word, "skip") => c.session.skip_reply(),
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}
