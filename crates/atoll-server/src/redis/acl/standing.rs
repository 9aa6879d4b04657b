//! What a connection may do.
//!
//! A connection is a user, `default` at first. It needs no password while that user needs none and
//! is on. What was true of a connection holds for one version of the users; at another one it is
//! found out again. A connection whose user is gone may do nothing: where Redis runs what is left
//! of its transaction as `default`, this server refuses it.

use super::Denial;
use super::log::{Entry, Happened, Reason};
use super::users::{Named, Users};
use crate::redis::command::{CommandError, Context, Flag, Id, Outcome, SPECS, subcommand};
use crate::redis::peers::Last;
use crate::redis::resp::Args;
use crate::redis::session::Session;
use atoll_cache::Engine;

/// No version of the users.
const NEVER: u64 = u64::MAX;

/// Which user a connection is, and what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    named: Named,
    /// Whether it has authenticated, or no password was wanted when it connected.
    is_authenticated: bool,
    /// Whether its user is gone: then it may do nothing any more.
    is_gone: bool,
    /// Whether it must authenticate before anything else, at version `known_at`.
    is_stranger: bool,
    /// The version of the users when it was last found out what is true.
    known_at: u64,
    /// The version of the users at which it may do everything.
    free_at: u64,
}

impl Standing {
    /// A connection that has said nothing.
    pub(super) fn new(default: Named) -> Self {
        let is_open = default.user.is_open();
        Self { is_authenticated: is_open, is_stranger: !is_open, ..Self::authenticated(default) }
    }

    /// A connection that has given the password of this user.
    pub(super) fn authenticated(named: Named) -> Self {
        let (is_gone, is_stranger) = (false, false);
        Self { named, is_authenticated: true, is_gone, is_stranger, known_at: NEVER, free_at: NEVER }
    }

    /// The name of the user.
    pub(crate) fn name(&self) -> &[u8] {
        &self.named.name
    }

    /// Whether it has authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_authenticated
    }

    /// Whether it must authenticate before anything else, as of the last
    /// [`Users::refresh`].
    pub(crate) fn is_stranger(&self) -> bool {
        self.is_stranger
    }
}

impl Users {
    /// Whether a connection may run every command.
    #[inline]
    pub(crate) fn frees(&self, session: &Session) -> bool {
        self.version() == session.standing.free_at
    }

    /// Finds out what is true of a connection now. One whose user is gone ends.
    #[inline]
    pub(crate) fn refresh(&self, session: &mut Session) {
        if self.version() != session.standing.known_at {
            self.look_up(session);
        }
    }

    #[cold]
    fn look_up(&self, session: &mut Session) {
        let (state, standing) = (self.state(), &mut session.standing);
        match state.same(&standing.named) {
            Some(named) => standing.named = named.clone(),
            None => {
                standing.named = state.default_user().clone();
                (standing.is_authenticated, standing.is_gone) = (false, true);
                session.closing = true;
                session.peer.set_user(standing.named.id, &standing.named.name);
            }
        }
        let must_authenticate = !standing.is_authenticated && !state.default_user().user.is_open();
        standing.is_stranger = must_authenticate || standing.is_gone;
        standing.known_at = self.version();
        let is_free = standing.named.is_free && !standing.is_stranger;
        standing.free_at = if is_free { standing.known_at } else { NEVER };
    }

    /// Whether a connection may run a command, which the table has checked.
    pub(crate) fn check(&self, session: &mut Session, id: Id, args: Args<'_>) -> Result<(), Denial> {
        self.refresh(session);
        let standing = &session.standing;
        if standing.free_at != NEVER {
            return Ok(());
        }
        if standing.is_gone || standing.is_stranger && !SPECS[id as usize].flags.contains(&Flag::NoAuth) {
            return Err(Denial::Stranger);
        }
        standing.named.user.check(id, args)
    }
}

/// Lets a command pass, or refuses it and notes that.
#[inline]
pub(crate) fn admit<G: Engine>(c: &mut Context<'_, G>, id: Id, happened: Happened) -> Outcome {
    if c.instance.users.frees(c.session) { Ok(()) } else { admit_checked(c, id, happened) }
}

#[cold]
fn admit_checked<G: Engine>(c: &mut Context<'_, G>, id: Id, happened: Happened) -> Outcome {
    let Err(denial) = c.instance.users.check(c.session, id, c.args) else { return Ok(()) };
    c.session.last = Last::command(id);
    let (reason, object) = match denial {
        Denial::Stranger => return Err(refusal(denial, happened, id, c.args)),
        Denial::Command => (Reason::Command, subcommand::full_name(id, c.args).as_bytes()),
        Denial::Key(place) => (Reason::Key, c.args.get(place)),
        Denial::Channel(place) => (Reason::Channel, c.args.get(place)),
    };
    note(c, reason, happened, object, &c.session.standing.named.name.clone());
    Err(refusal(denial, happened, id, c.args))
}

/// Notes that something was refused to a connection.
pub(crate) fn note<G: Engine>(c: &Context<'_, G>, reason: Reason, happened: Happened, object: &[u8], user: &[u8]) {
    // What a script does is not what its connection does.
    if happened != Happened::InScript {
        c.session.publish();
    }
    let peer = &c.session.peer;
    let line = c.instance.line(peer, c.shared);
    c.instance.users.log.add(Entry::new(reason, happened, object, user, line));
}

/// What a peer is told of a denial.
pub(crate) fn refusal(denial: Denial, happened: Happened, id: Id, args: Args<'_>) -> CommandError {
    let name = || subcommand::full_name(id, args);
    CommandError::Other(match (happened, denial) {
        (Happened::InScript, denial) => {
            let why = match denial {
                Denial::Stranger => "lacking the permissions for the command",
                Denial::Command => "can't run this command or subcommand",
                Denial::Key(_) => "can't access at least one of the keys mentioned in the command arguments",
                Denial::Channel(_) => "can't publish to the channel mentioned in the command",
            };
            format!("ERR The user executing the script {why}")
        }
        (_, Denial::Stranger) => "NOAUTH Authentication required.".to_owned(),
        (Happened::Executing, denial) => {
            let why = match denial {
                Denial::Key(_) => "no permission to touch the specified keys",
                Denial::Channel(_) => "no permission to access one of the channels used as arguments",
                _ => "no permission to execute the command or subcommand",
            };
            format!(
                "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: {why}"
            )
        }
        (_, Denial::Command) => format!("NOPERM this user has no permissions to run the '{}' command", name()),
        (_, Denial::Key(_)) => {
            "NOPERM this user has no permissions to access one of the keys used as arguments".to_owned()
        }
        (_, Denial::Channel(_)) => {
            "NOPERM this user has no permissions to access one of the channels used as arguments".to_owned()
        }
    })
}
