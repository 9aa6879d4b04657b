//! Connections that see every command of the server: MONITOR.
//!
//! ```text
//! +1700000000.123456 [0 127.0.0.1:50000] "SET" "key" "a \"value\"\n"
//! ```
//!
//! A command is shown once it has run, a script before its commands. It is posted to each monitor's
//! connection, so that no command waits for a monitor; one that takes too little ends, at the
//! output limit of class `pubsub`. Commands of operators are not shown, and no password is.
//!
//! Without monitors a command costs one relaxed load here. GETs that follow each other are looked
//! up one by one while there is a monitor.

use super::command::{Context, Flag, Id, SPECS, subcommand};
use super::peers::Peer;
use super::resp::Args;
use super::slow;
use atoll_cache::Engine;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The monitors of a server.
#[derive(Default)]
pub(crate) struct Monitors {
    all: Mutex<BTreeMap<u64, Arc<Peer>>>,
    /// Whether there is one; written under the lock.
    is_any: AtomicBool,
}

/// Subcommands that are shown although those beside them are not.
const SHOWN: [&str; 7] =
    ["acl|cat", "acl|genpass", "acl|help", "acl|whoami", "config|help", "latency|help", "slowlog|help"];
/// Subcommands that are not shown although those beside them are.
const HIDDEN: [&str; 6] =
    ["client|kill", "client|list", "client|no-evict", "client|pause", "client|unblock", "client|unpause"];

fn is_shown(id: Id, args: Args<'_>) -> bool {
    let name = subcommand::full_name(id, args);
    match SPECS[id as usize].flags.contains(&Flag::Admin) {
        true => SHOWN.contains(&name),
        false => !HIDDEN.contains(&name),
    }
}

/// Writes an argument in quotes, without line breaks and other bytes that are not printed.
fn quote(line: &mut String, arg: &[u8]) {
    line.push('"');
    for &byte in arg {
        match byte {
            b'\\' | b'"' => line.extend(['\\', byte.into()]),
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            7 => line.push_str("\\a"),
            8 => line.push_str("\\b"),
            b' '..=b'~' => line.push(byte.into()),
            _ => write!(line, "\\x{byte:02x}").expect("memory takes what is written"),
        }
    }
    line.push('"');
}

impl Monitors {
    fn all(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Peer>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Relaxed)
    }

    /// A connection sees every command from now on.
    pub(crate) fn add(&self, peer: Arc<Peer>) {
        let mut all = self.all();
        peer.handle.set_monitor(true);
        all.insert(peer.handle.id, peer);
        self.is_any.store(true, Relaxed);
    }

    /// A connection sees none any more.
    pub(crate) fn remove(&self, peer: &Peer) {
        if !peer.handle.is_monitor() {
            return;
        }
        let mut all = self.all();
        peer.handle.set_monitor(false);
        all.remove(&peer.handle.id);
        self.is_any.store(!all.is_empty(), Relaxed);
    }

    /// Shows a command with these arguments that a connection runs, or a script of it.
    #[cold]
    pub(crate) fn show<G: Engine>(&self, id: Id, c: &Context<'_, G>, is_script: bool) {
        if !is_shown(id, c.args) {
            return;
        }
        let (all, limit) = (self.all(), c.shared.limits.output(true));
        if limit.hard_bytes > 0 && c.args.from(0).map(<[u8]>::len).sum::<usize>() as u64 > limit.hard_bytes {
            // The line would have more bytes than any of them may be owed.
            return all.values().for_each(|peer| _ = peer.handle.end());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (handle, database) = (&c.session.peer.handle, c.session.database);
        let mut line = format!("+{}.{:06} [{database} ", now.as_secs(), now.subsec_micros());
        match (is_script, handle.is_unix) {
            (true, _) => line.push_str("lua"),
            (false, true) => line.extend(["unix:", handle.peer.strip_suffix(":0").unwrap_or(&handle.peer)]),
            (false, false) => line.push_str(&handle.peer),
        }
        line.push(']');
        let elided = c.session.elided.filter(|_| !is_script);
        for (place, arg) in slow::public(c.args).enumerate() {
            line.push(' ');
            // A value that began to arrive before the monitor was there is shown in part.
            match elided.filter(|(of, _)| *of == place) {
                Some((_, bytes)) => quote(&mut line, &[arg, slow::more(bytes).as_bytes()].concat()),
                None => quote(&mut line, arg),
            }
        }
        line.push_str("\r\n");
        all.values().for_each(|peer| peer.handle.post(line.as_bytes(), limit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_printed_on_one_line() {
        let mut line = String::new();
        quote(&mut line, b"a \"\\\n\r\t\x07\x08\0\x7f\xc3~");
        assert_eq!(line, r#""a \"\\\n\r\t\a\b\x00\x7f\xc3~""#);
    }
}
