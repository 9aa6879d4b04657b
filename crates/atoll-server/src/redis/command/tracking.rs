//! CLIENT TRACKING and its relatives: how a connection asks to be told of changes. Who is told of
//! what is in [`tracking`](crate::redis::tracking).

use super::arguments::{integer, is};
use super::{CommandError, Context, Outcome};
use crate::redis::session::Session;
use crate::redis::tracking::{Mode, Tracker, Tracks};
use atoll_cache::Engine;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// How often, and after which pauses, a client tries to follow the words of its process.
const TRIES: u32 = 25;
const TRY_PERIOD: Duration = Duration::from_millis(20);
/// How long it tries only once after it was found that it cannot.
const REFUSED: Duration = Duration::from_secs(5);

/// What `CLIENT TRACKING` was given.
#[derive(Default)]
struct Options {
    redirect: Option<u64>,
    is_broadcast: bool,
    is_optin: bool,
    is_optout: bool,
    is_noloop: bool,
    prefixes: Vec<Vec<u8>>,
}

impl Options {
    fn parse<G: Engine>(c: &Context<'_, G>) -> Result<Self, CommandError> {
        let (mut options, mut rest) = (Self::default(), c.args.from(3).peekable());
        while let Some(word) = rest.next() {
            match () {
                () if is(word, "redirect") && rest.peek().is_some() => {
                    if options.redirect.is_some() {
                        return Err("ERR A client can only redirect to a single other client".into());
                    }
                    let id = integer(rest.next().expect("it is there"))?;
                    let id = u64::try_from(id).ok().filter(|id| c.instance.peers.get(*id).is_some());
                    options.redirect = Some(id.ok_or("ERR The client ID you want redirect to does not exist")?);
                }
                () if is(word, "prefix") && rest.peek().is_some() => {
                    options.prefixes.push(rest.next().expect("it is there").to_vec());
                }
                () if is(word, "bcast") => options.is_broadcast = true,
                () if is(word, "optin") => options.is_optin = true,
                () if is(word, "optout") => options.is_optout = true,
                () if is(word, "noloop") => options.is_noloop = true,
                () => return Err(CommandError::Syntax),
            }
        }
        Ok(options)
    }

    /// Whether they go together, and with how the client is told of changes already.
    fn check(&self, present: Option<&Tracker>) -> Outcome {
        if !self.is_broadcast && !self.prefixes.is_empty() {
            return Err("ERR PREFIX option requires BCAST mode to be enabled".into());
        }
        if present.is_some_and(|present| (present.mode == Mode::Broadcast) != self.is_broadcast) {
            let why = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                       re-enabling it with a different mode.";
            return Err(why.into());
        }
        if self.is_broadcast && (self.is_optin || self.is_optout) {
            return Err("ERR OPTIN and OPTOUT are not compatible with BCAST".into());
        }
        if self.is_optin && self.is_optout {
            return Err("ERR You can't specify both OPTIN mode and OPTOUT mode".into());
        }
        let was = |mode| present.is_some_and(|present| present.mode == mode);
        if self.is_optin && was(Mode::OptOut) || self.is_optout && was(Mode::OptIn) {
            let why = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                       re-enabling it with a different mode.";
            return Err(why.into());
        }
        let present = present.map_or(&[][..], |present| &present.prefixes);
        for (index, prefix) in self.prefixes.iter().enumerate() {
            overlaps(prefix, present, "an existing prefix")?;
            overlaps(prefix, &self.prefixes[index + 1..], "another provided prefix")?;
        }
        Ok(())
    }

    fn mode(&self) -> Mode {
        match (self.is_broadcast, self.is_optin, self.is_optout) {
            (true, ..) => Mode::Broadcast,
            (_, true, _) => Mode::OptIn,
            (_, _, true) => Mode::OptOut,
            _ => Mode::Reads,
        }
    }
}

/// Refuses a prefix that begins with another one, or that another one begins with.
fn overlaps(prefix: &[u8], others: &[Vec<u8>], which: &str) -> Outcome {
    match others.iter().find(|other| other.starts_with(prefix) || prefix.starts_with(other)) {
        None => Ok(()),
        Some(other) => {
            let [prefix, other] = [prefix, other].map(String::from_utf8_lossy);
            Err(CommandError::Other(format!(
                "ERR Prefix '{prefix}' overlaps with {which} '{other}'. Prefixes for a single client must not overlap."
            )))
        }
    }
}

/// `CLIENT TRACKING (ON | OFF) [REDIRECT id] [PREFIX prefix]... [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
pub(super) async fn tracking<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let options = Options::parse(c)?;
    match c.args.get(2) {
        word if is(word, "off") => {
            c.instance.tracking.end(c.session.peer.handle.id);
            c.session.tracks = None;
        }
        word if is(word, "on") => {
            let present = c.session.tracks.as_ref().map(|tracks| &*tracks.tracker);
            options.check(present)?;
            let mut prefixes = present.map_or_else(Vec::new, |present| present.prefixes.clone());
            follow(c).await?;
            let (mode, Options { redirect, is_noloop, prefixes: more, .. }) = (options.mode(), options);
            prefixes.extend(more);
            if mode == Mode::Broadcast && prefixes.is_empty() {
                prefixes.push(Vec::new());
            }
            let (peer, is_broken) = (c.session.peer.clone(), Default::default());
            let tracker = Arc::new(Tracker { peer, mode, redirect, is_noloop, prefixes, is_broken });
            let before = c.session.tracks.take().map(|before| *before);
            c.session.tracks = Some(Box::new(Tracks::new(tracker.clone(), before)));
            // Messages have the form that the peer has chosen by now.
            c.session.publish();
            c.instance.tracking.begin(tracker);
        }
        _ => return Err(CommandError::Syntax),
    }
    c.reply.ok();
    Ok(())
}

/// Makes sure that this worker's client can find changes.
async fn follow<G: Engine>(c: &Context<'_, G>) -> Outcome {
    let refused = || c.instance.tracking.refused.lock().unwrap_or_else(PoisonError::into_inner);
    let was_refused = refused().is_some_and(|since| since.elapsed() < REFUSED);
    // Other connections wait while a transaction does.
    let tries = if was_refused || c.session.is_executing { 1 } else { TRIES };
    for tried in 0..tries {
        // Another client of this process may be about to export the words.
        if c.cache.engine().mark(0).is_some() || c.cache.engine().follow_changes().await? {
            return Ok(());
        }
        if tried + 1 < tries {
            tokio::time::sleep(TRY_PERIOD).await;
        }
    }
    if !was_refused {
        *refused() = Some(Instant::now());
    }
    let why = "ERR CLIENT TRACKING is not possible here: this server cannot follow what others change in the pool. \
               A pool has at most 64 processes that follow it, and over a network only one whose memory nodes have \
               no name on their host";
    Err(why.into())
}

/// `CLIENT CACHING (YES | NO)`
pub(super) fn caching<G: Engine>(c: &mut Context<'_, G>) -> Outcome {
    let Some(tracks) = &mut c.session.tracks else {
        let why = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT \
                   mode enabled";
        return Err(why.into());
    };
    match (c.args.get(2), tracks.tracker.mode) {
        (word, Mode::OptIn) if is(word, "yes") => tracks.is_excepted = true,
        (word, Mode::OptOut) if is(word, "no") => tracks.is_excepted = true,
        (word, _) if is(word, "yes") => {
            return Err("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.".into());
        }
        (word, _) if is(word, "no") => {
            return Err("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.".into());
        }
        _ => return Err(CommandError::Syntax),
    }
    c.reply.ok();
    Ok(())
}

impl Session {
    /// The id of the client that gets this one's messages; 0 if it gets them itself, -1 for none.
    pub(super) fn redirect(&self) -> i64 {
        self.tracks.as_ref().map_or(-1, |tracks| tracks.tracker.redirect.unwrap_or(0) as i64)
    }
}

/// `CLIENT TRACKINGINFO`
pub(super) fn info<G: Engine>(c: &mut Context<'_, G>) {
    let tracks = c.session.tracks.as_deref();
    let (mode, is_excepted) =
        (tracks.map(|tracks| tracks.tracker.mode), tracks.is_some_and(|tracks| tracks.is_excepted));
    let has = |what: fn(&Tracker) -> bool| tracks.is_some_and(|tracks| what(&tracks.tracker));
    let flags = [
        (tracks.is_some(), "on"),
        (tracks.is_none(), "off"),
        (mode == Some(Mode::Broadcast), "bcast"),
        (mode == Some(Mode::OptIn), "optin"),
        (mode == Some(Mode::OptIn) && is_excepted, "caching-yes"),
        (mode == Some(Mode::OptOut), "optout"),
        (mode == Some(Mode::OptOut) && is_excepted, "caching-no"),
        (has(|tracker| tracker.is_noloop), "noloop"),
        (has(|tracker| tracker.is_broken.load(Relaxed)), "broken_redirect"),
    ];
    let flags: Vec<&str> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
    c.reply.map(3);
    c.reply.bulk(b"flags");
    c.reply.set(flags.len());
    flags.iter().for_each(|flag| c.reply.bulk(flag.as_bytes()));
    c.reply.bulk(b"redirect");
    c.reply.integer(c.session.redirect());
    c.reply.bulk(b"prefixes");
    let prefixes = tracks.map_or(&[][..], |tracks| &tracks.tracker.prefixes);
    c.reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| c.reply.bulk(prefix));
}
