//! The users of a server.
//!
//! A user is a value that is replaced when it changes. Its identity is its number, which no other
//! user gets: a user that is deleted and made again is another one. Connections of a user that is
//! gone end.
//!
//! Invariants:
//! - There is a user `default`, whose number is [`DEFAULT_ID`].
//! - A connection's number of its user ([`Peer::set_user`]) is written while the users are locked.
//!   So a connection that removes a user finds all connections that are that user.
//! - `version` grows with every change, before the lock is released.

use super::USERS_MAX;
use super::file::FileError;
use super::log::Log;
use super::password::Password;
use super::standing::Standing;
use super::user::User;
use crate::redis::peers::{Peer, Peers};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The user that a connection is before it has authenticated.
pub(crate) const DEFAULT: &[u8] = b"default";
const DEFAULT_ID: u64 = 0;

/// A user with its name.
#[derive(Clone, Debug)]
pub(crate) struct Named {
    pub(crate) id: u64,
    pub(crate) name: Arc<[u8]>,
    pub(crate) user: Arc<User>,
    /// Whether it may do everything.
    pub(super) is_free: bool,
}

impl Named {
    fn new(id: u64, name: &[u8], user: User) -> Self {
        Self { id, name: name.into(), is_free: user.is_free(), user: Arc::new(user) }
    }
}

#[derive(Debug)]
pub(super) struct State {
    by_name: BTreeMap<Arc<[u8]>, Named>,
    next_id: u64,
}

impl State {
    fn insert(&mut self, name: &[u8], user: User) {
        let id = match self.by_name.get(name) {
            Some(present) => present.id,
            None => {
                self.next_id += 1;
                self.next_id - 1
            }
        };
        let named = Named::new(id, name, user);
        self.by_name.insert(named.name.clone(), named);
    }

    /// The user `default`.
    pub(super) fn default_user(&self) -> &Named {
        self.by_name.get(DEFAULT).expect("there is a default user")
    }

    /// The user of that name, if it is the one of that number.
    pub(super) fn same(&self, other: &Named) -> Option<&Named> {
        self.by_name.get(&other.name).filter(|named| named.id == other.id)
    }
}

/// The users of a server.
#[derive(Debug)]
pub(crate) struct Users {
    state: Mutex<State>,
    version: AtomicU64,
    /// What was refused.
    pub(crate) log: Log,
    /// Where they are saved.
    file: OnceLock<PathBuf>,
    /// Held by the connection that reads or writes the file.
    pub(crate) file_use: tokio::sync::Mutex<()>,
}

impl Default for Users {
    /// The user `default` alone, which may do everything and needs no password.
    fn default() -> Self {
        let mut state = State { by_name: BTreeMap::new(), next_id: 0 };
        state.insert(DEFAULT, User::free());
        Self {
            state: Mutex::new(state),
            version: AtomicU64::new(0),
            log: Log::default(),
            file: OnceLock::new(),
            file_use: tokio::sync::Mutex::default(),
        }
    }
}

impl Users {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The version of the users, which grows with every change.
    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    fn changed(&self, _: &mut State) {
        self.version.fetch_add(1, Release);
    }

    /// Where the users are saved, if anywhere.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.file.get()
    }

    /// Takes the users from a file, and saves them there from now on. Before the server serves.
    pub(crate) fn open_file(&self, path: PathBuf) -> Result<(), FileError> {
        let users = super::file::read(&path)?;
        self.replace_all(users, &Peers::default(), 0);
        let is_first = self.file.set(path).is_ok();
        assert!(is_first, "a server has one file of users");
        Ok(())
    }

    /// Takes these users in addition: one a line, as a file has them. Before the server serves.
    pub(crate) fn add(&self, lines: &str, place: &str) -> Result<(), FileError> {
        let users = super::file::parse(lines.as_bytes(), place).map_err(FileError::Invalid)?;
        let mut state = self.state();
        users.into_iter().for_each(|(name, user)| state.insert(&name, user));
        self.changed(&mut state);
        Ok(())
    }

    /// All users, in the order of their names.
    pub(crate) fn all(&self) -> Vec<Named> {
        self.state().by_name.values().cloned().collect()
    }

    /// The user of that name.
    pub(crate) fn get(&self, name: &[u8]) -> Option<Named> {
        self.state().by_name.get(name).cloned()
    }

    /// Whether any password is right for the user `default`.
    pub(crate) fn has_nopass(&self) -> bool {
        self.state().default_user().user.has_nopass()
    }

    /// Makes this the only password of the user `default`, or any password right.
    pub(crate) fn set_default_password(&self, password: Option<Password>) {
        let mut state = self.state();
        let mut user = User::clone(&state.default_user().user);
        user.set_password(password);
        state.insert(DEFAULT, user);
        self.changed(&mut state);
    }

    /// Changes a user, or makes it. Returns it as it is now, or the error of `change`.
    pub(crate) fn change<E: From<&'static str>>(
        &self,
        name: &[u8],
        change: impl FnOnce(&mut User) -> Result<(), E>,
    ) -> Result<Named, E> {
        let mut state = self.state();
        let before = state.by_name.get(name);
        if before.is_none() && state.by_name.len() >= USERS_MAX {
            return Err("ERR there are 10000 users, which is the most".into());
        }
        let mut user = before.map_or_else(User::default, |named| User::clone(&named.user));
        change(&mut user)?;
        state.insert(name, user);
        self.changed(&mut state);
        Ok(state.by_name[name].clone())
    }

    /// Removes the users of these names, and ends their connections but for that of the id `own`,
    /// whose next look at its user finds none. Returns how many users there were.
    pub(crate) fn remove<'n>(&self, names: impl Iterator<Item = &'n [u8]>, peers: &Peers, own: u64) -> usize {
        let mut state = self.state();
        let removed: Vec<u64> = names.filter_map(|name| state.by_name.remove(name)).map(|named| named.id).collect();
        self.changed(&mut state);
        drop(state);
        end(peers, own, |id| removed.contains(&id));
        removed.len()
    }

    /// Takes these users in place of all. Those other than `default` are others than were there, so
    /// that their connections end, but for that of the id `own`, as with [`remove`](Self::remove).
    pub(crate) fn replace_all(&self, users: Vec<(Vec<u8>, User)>, peers: &Peers, own: u64) {
        let mut state = self.state();
        let first_new = state.next_id;
        state.by_name.retain(|name, _| **name == *DEFAULT);
        state.insert(DEFAULT, User::free());
        for (name, user) in users {
            state.insert(&name, user);
        }
        self.changed(&mut state);
        drop(state);
        end(peers, own, |id| id != DEFAULT_ID && id < first_new);
    }

    /// The user of that name, if it has this password and is on: the connection is that user from
    /// now on.
    pub(crate) fn authenticate(&self, name: &[u8], password: &[u8], peer: &Peer) -> Option<Standing> {
        let password = Password::of(password);
        let state = self.state();
        let named = state.by_name.get(name).filter(|named| named.user.is_right(&password))?;
        peer.set_user(named.id, &named.name);
        Some(Standing::authenticated(named.clone()))
    }

    /// What a new connection is.
    pub(crate) fn standing(&self, peer: &Peer) -> Standing {
        let state = self.state();
        let named = state.default_user();
        peer.set_user(named.id, &named.name);
        Standing::new(named.clone())
    }
}

/// Ends connections whose user is one of these.
fn end(peers: &Peers, own: u64, is_gone: impl Fn(u64) -> bool) {
    for peer in peers.living().iter().filter(|peer| peer.handle.id != own && is_gone(peer.user().0)) {
        peer.handle.end();
    }
}
