//! Busy polling: a thread that waits for something that comes soon looks for it again and again.
//!
//! Sleeping and being woken takes some 50 microseconds on a virtual machine. An answer that comes
//! sooner is found by looking. But a thread that looks takes a core from others, and from the
//! battery. So it looks only where that has paid:
//!
//! | what it last waited for | the window, in which it looks before it sleeps |
//! |---|---|
//! | came within [`WINDOW_MAX`] | doubles, up to [`WINDOW_MAX`] |
//! | came later | halves, and is closed below [`WINDOW_MIN`] |
//!
//! A thread that looks yields its core each time. If another thread took it, cores are short: then
//! the thread only sleeps until [`HOLDOFF`] is over. Where a quota limits the processor time of
//! this process (a container's limit, say), threads only sleep: looking would use the quota up.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The longest that a thread looks before it sleeps.
pub const WINDOW_MAX: Duration = Duration::from_micros(100);
/// The shortest that a thread looks for, if at all.
pub const WINDOW_MIN: Duration = Duration::from_micros(10);
/// How long a thread only sleeps after another one wanted its core.
pub const HOLDOFF: Duration = Duration::from_millis(2);
/// Yielding takes longer if another thread runs meanwhile, or an interrupt comes.
const YIELD_MAX: Duration = Duration::from_micros(3);

/// Looks for one thing.
#[derive(Clone, Copy, Debug)]
pub struct Looks {
    until: Instant,
}

/// How long one thread looks before it sleeps.
#[derive(Clone, Copy, Debug)]
pub struct BusyPolling {
    /// Whether it only sleeps.
    is_off: bool,
    window: Duration,
    /// Until when it only sleeps.
    held_off: Option<Instant>,
    /// How often another thread had taken the core when that was last asked.
    taken: i64,
}

impl Default for BusyPolling {
    /// Of a thread that has not waited yet.
    fn default() -> Self {
        Self { is_off: has_quota(), window: Duration::ZERO, held_off: None, taken: 0 }
    }
}

/// Whether this process may use less processor time than its cores have.
fn has_quota() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: all bytes zero are a value of the type.
        let mut cores: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: the call writes to `cores` alone, whose size it is given.
        let asked = unsafe { libc::sched_getaffinity(0, std::mem::size_of_val(&cores), &raw mut cores) };
        // SAFETY: the set is initialized.
        let cores = unsafe { libc::CPU_COUNT(&cores) };
        // Of the cores and the quota, the less.
        let usable = std::thread::available_parallelism();
        asked == 0 && usable.is_ok_and(|usable| usable.get() < cores as usize)
    })
}

impl BusyPolling {
    /// Calls `look` until it finds something, for at most the window and at most `longest`. Returns
    /// whether it found something; if not, the thread is to sleep.
    #[inline]
    pub fn find(&mut self, longest: Duration, mut look: impl FnMut() -> bool) -> bool {
        let Some(looks) = self.begin(longest) else { return false };
        while !look() {
            if !self.goes_on(looks) {
                return false;
            }
        }
        true
    }

    /// Begins to look, for at most the window and at most `longest`. `None` if the thread is to
    /// sleep at once.
    #[inline]
    pub fn begin(&self, longest: Duration) -> Option<Looks> {
        let window = self.window.min(longest);
        if window.is_zero() || self.is_off {
            return None;
        }
        let begun = Instant::now();
        match self.held_off {
            Some(until) if begun < until => None,
            _ => Some(Looks { until: begun + window }),
        }
    }

    /// Yields the core after a look that has found nothing. Returns whether the thread is to look
    /// again; if not, it is to sleep.
    #[inline]
    pub fn goes_on(&mut self, looks: Looks) -> bool {
        let before = Instant::now();
        std::thread::yield_now();
        let now = Instant::now();
        if now - before > YIELD_MAX && self.was_taken() {
            self.held_off = Some(now + HOLDOFF);
            return false;
        }
        now < looks.until
    }

    /// Whether another thread has taken the core since the last such question.
    #[cold]
    fn was_taken(&mut self) -> bool {
        // SAFETY: all bytes zero are a value of the type.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the call writes to `usage` alone.
        let asked = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
        asked == 0 && std::mem::replace(&mut self.taken, usage.ru_nivcsw) < usage.ru_nivcsw
    }

    /// The thread has waited for so long, and slept at last. `has_come` says whether that for which
    /// it waited came.
    #[inline]
    pub fn waited(&mut self, time: Duration, has_come: bool) {
        self.window = match has_come && time <= WINDOW_MAX {
            true => (2 * self.window).clamp(WINDOW_MIN, WINDOW_MAX),
            false if self.window > WINDOW_MIN => self.window / 2,
            false => Duration::ZERO,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window_after(waits: &[(u64, bool)]) -> Duration {
        let mut polling = BusyPolling::default();
        waits.iter().for_each(|(us, has_come)| polling.waited(Duration::from_micros(*us), *has_come));
        polling.window
    }

    #[test]
    fn the_window_opens_for_what_comes_soon_and_closes_for_what_does_not() {
        assert_eq!(window_after(&[]), Duration::ZERO);
        assert_eq!(window_after(&[(50, true)]), WINDOW_MIN);
        assert_eq!(window_after(&[(100, true); 9]), WINDOW_MAX);
        assert_eq!(window_after(&[(101, true)]), Duration::ZERO);
        // What comes in half as long again as the window's most is looked for in vain.
        assert_eq!(window_after(&[[(50, true); 9], [(150, true); 9]].concat()), Duration::ZERO);
        let open = [(50, true); 9];
        assert_eq!(window_after(&[&open[..], &[(5000, true)]].concat()), WINDOW_MAX / 2);
        assert_eq!(window_after(&[open, [(50, false); 9]].concat()), Duration::ZERO);
    }

    #[test]
    fn a_thread_looks_no_longer_than_its_window() {
        let mut polling = BusyPolling { is_off: false, ..BusyPolling::default() };
        assert!(!polling.find(Duration::MAX, || panic!("the window is closed")));
        (0..9).for_each(|_| polling.waited(WINDOW_MIN, true));
        let mut looks = 0;
        // Another thread of the machine may take the core at any look: then it is held off.
        let found = polling.find(Duration::MAX, || {
            looks += 1;
            looks == 3
        });
        assert!(found == (looks == 3) && looks <= 3, "{looks}");
        assert!(!polling.find(Duration::ZERO, || panic!("there is no time")));
        let begun = Instant::now();
        assert!(!polling.find(Duration::MAX, || false), "what does not come is not found");
        assert!(begun.elapsed() >= WINDOW_MAX || polling.held_off.is_some());
    }

    #[test]
    fn a_thread_whose_core_is_wanted_only_sleeps_for_a_while() {
        let mut polling = BusyPolling { is_off: false, ..BusyPolling::default() };
        (polling.window, polling.held_off) = (WINDOW_MAX, Some(Instant::now() + Duration::from_secs(60)));
        assert!(!polling.find(Duration::MAX, || panic!("it is held off")));
        polling.held_off = Some(Instant::now());
        assert!(polling.find(Duration::MAX, || true));
        polling.is_off = true;
        assert!(!polling.find(Duration::MAX, || panic!("it is off")));
    }
}
