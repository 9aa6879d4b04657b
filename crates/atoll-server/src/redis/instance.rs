//! What the connections of one server have in common.

use super::acl::{Password, Users};
use super::channels::Channels;
use super::config::{Config, Started};
use super::database::Databases;
use super::events::Events;
use super::isolation::Isolation;
use super::monitors::Monitors;
use super::pause::Pause;
use super::peers::Peers;
use super::script::Scripts;
use super::slow::Slow;
use super::tracking::Tracking;
use crate::serve::counters::{Shared, Totals};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The configuration of the protocol.
#[derive(Clone, Default)]
pub struct RedisOptions {
    /// The password of the user `default`, which every connection must give first.
    pub password: Option<Vec<u8>>,
    /// Whether peers on other hosts are served without a password.
    pub is_open: bool,
}

impl std::fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let password = self.password.as_ref().map(|_| "given");
        f.debug_struct("RedisOptions").field("password", &password).field("is_open", &self.is_open).finish()
    }
}

/// One server.
#[derive(Default)]
pub(crate) struct Instance {
    is_open: bool,
    pub(crate) users: Users,
    pub(crate) isolation: Isolation,
    pub(crate) databases: Databases,
    pub(crate) scripts: Scripts,
    pub(crate) peers: Peers,
    pub(crate) channels: Channels,
    pub(crate) monitors: Monitors,
    pub(crate) events: Events,
    pub(crate) pause: Pause,
    pub(crate) config: Config,
    pub(crate) slow: Slow,
    pub(crate) tracking: Tracking,
    /// What had been published at the last `CONFIG RESETSTAT`.
    forgotten: Mutex<Option<Totals>>,
    /// The most live bytes that INFO has found.
    memory_peak: AtomicU64,
    run_id: OnceLock<String>,
}

impl Instance {
    pub(crate) fn new(options: RedisOptions) -> Self {
        let instance = Self { is_open: options.is_open, ..Self::default() };
        if let Some(password) = options.password {
            instance.users.set_default_password(Some(Password::of(&password)));
        }
        instance
    }

    /// How it was started.
    pub(crate) fn started(&self) -> Started<'_> {
        Started {
            slow: &self.slow,
            events: &self.events,
            tracking: &self.tracking,
            scripts: &self.scripts,
            is_protected: !self.is_open,
            users: &self.users,
        }
    }

    /// What the workers have published since `CONFIG RESETSTAT`.
    pub(crate) fn totals(&self, shared: &Shared) -> Totals {
        let mut totals = shared.totals();
        if let Some(forgotten) = &*self.forgotten.lock().unwrap_or_else(PoisonError::into_inner) {
            totals.forget(forgotten);
        }
        totals
    }

    /// Lets [`totals`](Self::totals) begin with what is counted from now on.
    pub(crate) fn forget_counts(&self, shared: &Shared) {
        *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner) = Some(shared.totals());
        self.users.log.forget_counts();
    }

    /// Forty digits that differ for every server.
    pub(crate) fn run_id(&self) -> &str {
        self.run_id.get_or_init(|| {
            let random = RandomState::new();
            let digits = |part: u32| format!("{:016x}", random.hash_one((std::process::id(), part)));
            (0..3).map(digits).collect::<String>()[..40].to_owned()
        })
    }

    /// The most live bytes that have been found, these among them.
    pub(crate) fn memory_peak(&self, found: u64) -> u64 {
        self.memory_peak.fetch_max(found, Relaxed).max(found)
    }

    /// Whether peers on other hosts are served without a password.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether only peers on this host are served.
    pub(crate) fn is_protected(&self) -> bool {
        self.users.has_nopass() && !self.is_open
    }
}

/// What a peer on another host reads if it may not connect.
pub(crate) const PROTECTED: &[u8] = b"-DENIED This server has no password, so that it serves its own host only \
(protected mode). To serve other hosts, start it with --password-file FILE or --aclfile FILE, or with --protected-mode no where \
everybody in the network may read and change the cache.\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_shown_nowhere() {
        let options = RedisOptions { password: Some(b"secret".to_vec()), is_open: false };
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn a_server_without_a_password_is_protected_unless_it_is_open() {
        let protected = |password: Option<&[u8]>, is_open| {
            Instance::new(RedisOptions { password: password.map(<[u8]>::to_vec), is_open }).is_protected()
        };
        assert!(protected(None, false));
        assert!(!protected(None, true) && !protected(Some(b"x"), false));
    }
}
