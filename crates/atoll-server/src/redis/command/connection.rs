//! Commands about the connection itself.
//!
//! A connection of RESP2 that has subscribed gets another reply to
//! PING: its form is that of a message.

use super::arguments::is;
use super::client::{BAD_NAME, name};
use super::error::shown;
use super::{CommandError, Context, Id, Outcome, info, keyspace};
use crate::redis::acl::{self, Happened, Reason};
use crate::redis::peers::Last;
use crate::redis::resp::Protocol;
use crate::redis::session::Session;
use atoll_cache::Engine;
use atoll_cache::cache::parse_integer;
use atoll_fabric::Pace;

/// `PING [text]`
pub async fn ping<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    if c.args.len() <= 2 && c.session.is_listening() {
        c.reply.array(2);
        c.reply.bulk(b"pong");
        c.reply.bulk(if c.args.len() == 2 { c.args.get(1) } else { b"" });
        return Ok(());
    }
    match c.args.len() {
        1 => c.reply.simple("PONG"),
        2 => c.reply.bulk(c.args.get(1)),
        _ => return Err(CommandError::Arity("ping")),
    }
    Ok(())
}

/// `ECHO text`
pub async fn echo<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    c.reply.bulk(c.args.get(1));
    Ok(())
}

/// `SELECT database`
pub async fn select<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    c.session.database = keyspace::database_number(c.args.get(1))?;
    c.reply.ok();
    Ok(())
}

/// `AUTH [user] password`
pub async fn auth<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (user, password) = match c.args.len() {
        2 if c.instance.users.has_nopass() => {
            let why = "ERR AUTH <password> called without any password configured for the default user. \
                       Are you sure your configuration is correct?";
            return Err(why.into());
        }
        2 => (&b"default"[..], c.args.get(1)),
        3 => (c.args.get(1), c.args.get(2)),
        _ => return Err(CommandError::Syntax),
    };
    authenticate(c, user, password)?;
    c.reply.ok();
    Ok(())
}

fn authenticate<G: Engine>(c: &mut Context<'_, G>, user: &[u8], password: &[u8]) -> Outcome {
    let Some(standing) = c.instance.users.authenticate(user, password, &c.session.peer) else {
        let happened = if c.session.is_executing { Happened::Executing } else { Happened::Arriving };
        acl::note(c, Reason::Auth, happened, c.args.get(0), user);
        static LOGINS: Pace = Pace::new();
        if let Some(more) = LOGINS.line() {
            // The name is the peer's own text.
            let user: String = user.escape_ascii().map(char::from).take(64).collect();
            tracing::warn!("a login as {user} is refused to {}{more}", c.session.peer.handle.peer);
        }
        return Err("WRONGPASS invalid username-password pair or user is disabled.".into());
    };
    c.session.standing = standing;
    c.instance.users.refresh(c.session);
    Ok(())
}

/// `QUIT`
pub async fn quit<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    c.session.closing = true;
    c.reply.ok();
    Ok(())
}

/// `SHUTDOWN [NOSAVE | SAVE] [NOW] [FORCE] [ABORT]`: stops the server as SIGTERM does. The peer's
/// connection ends without a reply.
pub async fn shutdown<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let (mut saves, mut aborts) = (None, false);
    for word in c.args.from(1) {
        match () {
            () if is(word, "save") && saves != Some(false) => saves = Some(true),
            () if is(word, "nosave") && saves != Some(true) => saves = Some(false),
            () if is(word, "now") || is(word, "force") => {}
            () if is(word, "abort") && c.args.len() == 2 => aborts = true,
            _ => return Err(CommandError::Syntax),
        }
    }
    match () {
        () if aborts => Err("ERR No shutdown in progress.".into()),
        () if saves == Some(true) => {
            Err("ERR nothing is saved: a pool is memory, and one in a file keeps what it has. Use SHUTDOWN NOSAVE"
                .into())
        }
        () => {
            tracing::info!("{} stops the server by SHUTDOWN", c.session.peer.handle.peer);
            c.session.closing = true;
            c.shared.stopper.stop();
            Ok(())
        }
    }
}

/// `RESET`
pub async fn reset<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let peer = c.session.peer.clone();
    c.instance.channels.leave(&peer);
    c.instance.monitors.remove(&peer);
    c.instance.tracking.end(peer.handle.id);
    peer.handle.take_posted(c.reply.output());
    peer.names().own.clear();
    let standing = c.instance.users.standing(&peer);
    *c.session = Session::new(peer, standing);
    c.session.last = Last::command(Id::Reset);
    c.reply.set_protocol(Protocol::default());
    c.reply.simple("RESET");
    Ok(())
}

/// `HELLO [version [AUTH user password] [SETNAME name]]`
pub async fn hello<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let mut protocol = c.session.protocol;
    if c.args.len() > 1 {
        protocol = match parse_integer(c.args.get(1)) {
            None => return Err("ERR Protocol version is not an integer or out of range".into()),
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
        };
    }
    let (mut client_name, mut index) = (None, 2);
    while index < c.args.len() {
        let (word, more) = (c.args.get(index), c.args.len() - index - 1);
        if is(word, "auth") && more >= 2 {
            authenticate(c, c.args.get(index + 1), c.args.get(index + 2))?;
            index += 3;
        } else if is(word, "setname") && more >= 1 {
            client_name = Some(name(c.args.get(index + 1), BAD_NAME)?);
            index += 2;
        } else {
            return Err(CommandError::Other(format!("ERR Syntax error in HELLO option '{}'", shown(word, usize::MAX))));
        }
    }
    if !c.session.standing.is_authenticated() {
        let why = "NOAUTH HELLO must be called with the client already authenticated, otherwise the \
                   HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
                   select the RESP protocol version at the same time";
        return Err(why.into());
    }
    if let Some(name) = client_name {
        c.session.peer.names().own = name;
    }
    // What was posted before has the form of before.
    c.session.peer.handle.take_posted(c.reply.output());
    c.session.protocol = protocol;
    // Messages have that form from now on.
    c.session.publish();
    c.reply.set_protocol(protocol);
    c.reply.map(7);
    for (field, text) in [("server", "redis"), ("version", info::REDIS_VERSION)] {
        c.reply.bulk(field.as_bytes());
        c.reply.bulk(text.as_bytes());
    }
    c.reply.bulk(b"proto");
    c.reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
    c.reply.bulk(b"id");
    c.reply.integer(c.session.peer.handle.id as i64);
    for (field, text) in [("mode", "standalone"), ("role", "master")] {
        c.reply.bulk(field.as_bytes());
        c.reply.bulk(text.as_bytes());
    }
    c.reply.bulk(b"modules");
    c.reply.array(0);
    Ok(())
}
