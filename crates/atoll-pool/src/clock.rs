//! The pool's clock, which judges expiry: one word of milliseconds since the Unix epoch that only
//! ever grows.
//!
//! | word | content | access |
//! |---|---|---|
//! | clock | the pool's time, milliseconds since the Unix epoch | atomics only |
//! | clock offset | the pool's time less the agent's clock, wrapping; all ones: none | data, as the header |
//!
//! **Wall clocks are believed once.** The client that formats the pool sets the pool's time from
//! its wall clock. After that, time advances by monotone clocks. So a wrong wall clock neither
//! expires an object nor keeps one.
//!
//! | a wall clock | is |
//! |---|---|
//! | of the client that formats the pool | the pool's time |
//! | of the client that takes the pool over after a reboot, ahead of the pool's time | the pool's time: only a wall clock shows how long the host was off |
//! | the same, behind the pool's time | refused: the pool's time continues from where it was |
//! | of any other client, or stepped while the pool is in use | refused, and reported from [`OUTLIER_MS`] on |
//!
//! A small step is refused, too. NTP corrects the rate of the kernel's monotone clocks together
//! with the wall clock's. So the two differ only by steps. A pool that should follow a corrected
//! wall clock is created anew.
//!
//! **Advancing.** A client that needs the time READs the word. If its own estimate is later, it
//! swaps the estimate in:
//!
//! | the client | its estimate |
//! |---|---|
//! | can read the agent's clock | the agent's clock plus the offset: also right after a time without clients |
//! | the same, but that is behind the word, which clients without that clock advanced too fast | the same: it waits until its agent's clock has caught up |
//! | the same, but that is [`OUTLIER_MS`] behind the word | as in the next row: its agent's clock is refused for good |
//! | cannot, and has READ the word before | the word as it was then, plus the time that passed on the client's monotone clock |
//! | cannot, and READs the word for the first time | the word |
//!
//! So an advance never exceeds the monotone time that passed for the client that makes it. A failed
//! swap is retried on the word that it found: that word may come from a client that was paused
//! after its estimate.
//!
//! **Judging.** A client judges expiry by a value that the word has had. It uses the value for at
//! most [`REFRESH_NS`] of its monotone clock. Hence, once an object has expired for one client, an
//! operation that any client begins [`SKEW_MS`] later finds it expired. The value is a whole number
//! of milliseconds, too. So it is less than [`SKEW_MS`] behind the time, and a client that lets an
//! object expire after some time adds as much.
//!
//! Over a network a look costs a round trip or two. A client that can read the agent's clock does
//! without, where that is enough:
//!
//! | to be known | without a look | why |
//! |---|---|---|
//! | whether an object has expired that expires more than [`OUTLIER_MS`] later than the agent's clock says | it has not | the word is no further ahead: the client looks once in [`OUTLIER_NS`], and refuses the agent's clock if it is |
//! | when an object is to expire after some time | later by that than the agent's clock, or than the last look, at most [`ESTIMATE_NS`] ago, and the monotone time since then | both are behind the word by no more than clocks differ. If the time stands still, until the agent's clock has caught up, the object lives longer by that |

use crate::Layout;
use crate::words::{self, read_word};
use atoll_fabric::{Batch, Endpoint, VerbError};

/// How long a client judges by the same value.
pub const REFRESH_NS: u64 = 1_000_000;
/// For how long a client estimates the time after a look, to say when an object is to expire. In
/// that time two clocks whose rates differ by a thousandth come apart by 50 microseconds.
pub const ESTIMATE_NS: u64 = 50_000_000;
/// How much earlier one client may see an object expire than another, in milliseconds.
pub const SKEW_MS: u64 = 2;
/// A clock that is so far off the pool's time is reported, in milliseconds.
pub const OUTLIER_MS: u64 = 1000;
/// How often a client looks for such a difference.
pub const OUTLIER_NS: u64 = 1_000_000_000;
/// The offset of a pool whose maker could not ask the agent's clock.
const NO_OFFSET: u64 = u64::MAX;

/// Where a client's own reckoning of the time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reckoning {
    /// It has not looked at the word.
    #[default]
    None,
    /// The agent's clock, and what is to be added to it, wrapping.
    Agent(u64),
    /// Its own monotone clock: the word was `ms` when that showed `ns`, or earlier.
    Own { ms: u64, ns: u64 },
}

/// What one client knows of the pool's clock.
#[derive(Clone, Debug, Default)]
pub struct PoolClock {
    /// A value that the word has had; the word is at least this.
    known_ms: u64,
    /// When the look began that found it, on the endpoint's monotone clock.
    looked_ns: u64,
    reckoning: Reckoning,
    /// How far this host's wall clock is ahead of the pool's time, by the last look.
    wall_ahead_ms: i64,
    outliers: u64,
}

impl PoolClock {
    /// The time that this client judges by, if it has looked lately.
    #[inline]
    pub fn running_ms(&self, now_ns: u64) -> Option<u64> {
        let is_fresh = self.reckoning != Reckoning::None && now_ns.wrapping_sub(self.looked_ns) < REFRESH_NS;
        is_fresh.then_some(self.known_ms)
    }

    /// Whether a time is sure not to have come for any client, by the agent's clock and a look of
    /// the last second.
    pub fn is_far_ahead<E: Endpoint>(&self, endpoint: &E, time_ms: u64, now_ns: u64) -> bool {
        let has_looked = now_ns.wrapping_sub(self.looked_ns) < OUTLIER_NS;
        if !has_looked || !matches!(self.reckoning, Reckoning::Agent(_)) {
            return false;
        }
        let latest_ms = self.reckoning.ms(endpoint).saturating_add(OUTLIER_MS);
        self.known_ms < latest_ms && latest_ms < time_ms
    }

    /// The time for what is to expire after a while, if this client can read the agent's clock and
    /// has looked lately.
    #[inline]
    pub fn estimated_ms<E: Endpoint>(&self, endpoint: &E, now_ns: u64) -> Option<u64> {
        let is_recent = now_ns.wrapping_sub(self.looked_ns) < ESTIMATE_NS;
        let is_agents = matches!(self.reckoning, Reckoning::Agent(_));
        (is_recent && is_agents).then(|| self.reckoning.ms(endpoint).max(self.about_us(now_ns) / 1000))
    }

    /// The time in microseconds by the last look, however old that is, and this client's monotone
    /// clock: for what need not be exact.
    #[inline]
    pub fn about_us(&self, now_ns: u64) -> u64 {
        self.known_ms.saturating_mul(1000).saturating_add(now_ns.wrapping_sub(self.looked_ns) / 1000)
    }

    /// The time, looking at the word if the last look is older than [`REFRESH_NS`]. `now_ns` is the
    /// endpoint's monotone clock.
    #[inline]
    pub async fn now_ms<E: Endpoint>(&mut self, endpoint: &E, layout: &Layout, now_ns: u64) -> Result<u64, VerbError> {
        if let Some(ms) = self.running_ms(now_ns) {
            return Ok(ms);
        }
        self.look(endpoint, layout).await?;
        self.looked_ns = now_ns;
        Ok(self.known_ms)
    }

    /// How far this host's wall clock is ahead of the pool's time, by the last look; negative if it
    /// is behind.
    pub fn wall_ahead_ms(&self) -> i64 {
        self.wall_ahead_ms
    }

    /// How often this client refused a clock: its host's wall clock came to be [`OUTLIER_MS`] off,
    /// or its agent's clock was.
    pub fn outliers(&self) -> u64 {
        self.outliers
    }

    async fn look<E: Endpoint>(&mut self, endpoint: &E, layout: &Layout) -> Result<(), VerbError> {
        let reckoning = match self.reckoning {
            Reckoning::None => Reckoning::first(endpoint, layout).await?,
            known => known,
        };
        // Reckoned before the look: what is swapped in is no later than now.
        let reckoned_ms = reckoning.ms(endpoint);
        let later = |word: u64| (word < reckoned_ms).then_some(reckoned_ms);
        let word = words::change(endpoint, layout.clock(), later).await?;
        // A damaged word may have gone back.
        self.known_ms = self.known_ms.max(word);
        let is_outlier =
            matches!(reckoning, Reckoning::Agent(_)) && reckoned_ms.saturating_add(OUTLIER_MS) <= self.known_ms;
        self.reckoning = match reckoning {
            Reckoning::Agent(_) if !is_outlier => reckoning,
            // A client whose reckoning is not behind by now keeps it: setting it anew would lose
            // the time that the look took.
            Reckoning::Own { .. } if reckoning.ms(endpoint) >= self.known_ms => reckoning,
            _ => Reckoning::Own { ms: self.known_ms, ns: endpoint.now_ns() },
        };
        let ahead_ms = endpoint.unix_ms().wrapping_sub(self.known_ms) as i64;
        let is_off = |ahead_ms: i64| ahead_ms.unsigned_abs() >= OUTLIER_MS;
        let is_stepped = is_off(ahead_ms) && !is_off(self.wall_ahead_ms);
        (self.wall_ahead_ms, self.outliers) = (ahead_ms, self.outliers + u64::from(is_outlier) + u64::from(is_stepped));
        Ok(())
    }
}

impl Reckoning {
    /// Of a client that has not looked at the clock.
    async fn first<E: Endpoint>(endpoint: &E, layout: &Layout) -> Result<Self, VerbError> {
        let offset = read_word(endpoint, layout.clock_offset()).await?;
        let is_agents = offset != NO_OFFSET && endpoint.agent_ms().is_some();
        Ok(if is_agents { Self::Agent(offset) } else { Self::None })
    }

    /// The time by it; 0 if there is none.
    fn ms<E: Endpoint>(self, endpoint: &E) -> u64 {
        match self {
            Self::None => 0,
            Self::Agent(offset) => endpoint.agent_ms().map_or(0, |ms| ms.wrapping_add(offset)),
            Self::Own { ms, ns } => ms.saturating_add(endpoint.now_ns().wrapping_sub(ns) / 1_000_000),
        }
    }
}

/// Adds the WRITEs that begin the pool's time, or begin it anew in another life of the agent. The
/// time is this host's wall clock, or `least_ms` if that is later.
pub(crate) fn add_beginning<E: Endpoint>(batch: &mut Batch, endpoint: &E, layout: &Layout, least_ms: u64) {
    let ms = endpoint.unix_ms().max(least_ms);
    let offset = endpoint.agent_ms().map_or(NO_OFFSET, |agent_ms| ms.wrapping_sub(agent_ms));
    batch.write_word(layout.clock(), ms);
    batch.write_word(layout.clock_offset(), offset);
}
