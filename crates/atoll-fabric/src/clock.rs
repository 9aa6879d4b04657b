//! Where an endpoint's time comes from.
//!
//! | clock | of | used for |
//! |---|---|---|
//! | monotone | the processor, or the kernel | durations |
//! | wall | the host | the time at which the first client of a pool starts the pool's clock |
//! | agent | the kernel: `CLOCK_BOOTTIME`, which counts while the host sleeps | the time that passed since any other process read the clock |
//!
//! A system call reads the agent's clock from the kernel, because a preloaded C library may replace
//! `clock_gettime`. A time namespace adds an offset to it, which is in `/proc/self/timens_offsets`.
//! If that file cannot be read, the process has no agent clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
#[cfg(target_arch = "x86_64")]
use std::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The host's clocks, or a clock set by hand (a replay runs in its trace's time).
#[derive(Clone, Debug)]
pub enum Clock {
    /// The host's monotone clock, and its wall clock.
    Host(HostClock),
    /// Nanoseconds since the Unix epoch, moved by the holder of the other end.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The host's clocks.
    pub fn host() -> Self {
        Self::Host(HostClock::calibrated())
    }

    /// A clock that stands at `ns` until the returned word is stored to.
    pub fn manual(ns: u64) -> (Self, Arc<AtomicU64>) {
        let word = Arc::new(AtomicU64::new(ns));
        (Self::Manual(word.clone()), word)
    }

    /// Monotone nanoseconds from an arbitrary origin.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Host(clock) => clock.now_ns(),
            Self::Manual(word) => word.load(Ordering::Relaxed),
        }
    }

    /// Milliseconds of the kernel's clock, the same for all processes of the host; `None` if it
    /// cannot be had.
    pub fn agent_ms(&self) -> Option<u64> {
        match self {
            Self::Host(_) => boot_ms(),
            Self::Manual(word) => Some(word.load(Ordering::Relaxed) / 1_000_000),
        }
    }

    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(&self) -> u64 {
        match self {
            Self::Host(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            Self::Manual(word) => word.load(Ordering::Relaxed) / 1_000_000,
        }
    }
}

/// Milliseconds since the host's boot, without the offset of this process' time namespace.
fn boot_ms() -> Option<u64> {
    static OFFSET_NS: OnceLock<Option<i128>> = OnceLock::new();
    let offset_ns = (*OFFSET_NS.get_or_init(boot_offset_ns))?;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes a `timespec` to the place that is given, and nothing else.
    let outcome = unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_BOOTTIME, &raw mut time) };
    let ns = i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec) - offset_ns;
    (outcome == 0).then(|| u64::try_from(ns / 1_000_000).ok())?
}

/// Nanoseconds of the boot clock of this process' time namespace, which counts while the host
/// sleeps. It costs no system call. [`u64::MAX`] if the kernel has no such clock.
#[cfg(feature = "tcp")]
#[inline]
pub(crate) fn awake_or_asleep_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes a `timespec` to the place that is given, and nothing else.
    let outcome = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    if outcome == 0 { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 } else { u64::MAX }
}

/// By how much this process' time namespace is ahead of the host's clock; `None` if that cannot be
/// told.
fn boot_offset_ns() -> Option<i128> {
    // A kernel without time namespaces has neither of the links. The offsets are those of the
    // children's namespace.
    let namespace = |name: &str| std::fs::read_link(format!("/proc/self/ns/{name}")).ok();
    if namespace("pid").is_none() || namespace("time") != namespace("time_for_children") {
        return None;
    }
    if namespace("time").is_none() {
        return Some(0);
    }
    offset_told(&std::fs::read_to_string("/proc/self/timens_offsets").ok()?)
}

/// The offset of the boot clock that a `timens_offsets` file tells.
fn offset_told(file: &str) -> Option<i128> {
    let fields: Vec<&str> = file.lines().find(|line| line.starts_with("boottime"))?.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i128>().ok();
    Some(number(1)? * 1_000_000_000 + number(2)?)
}

/// The host's monotone clock; on x86-64 the time-stamp counter, which costs a third of a system
/// clock read.
#[derive(Clone, Debug)]
pub struct HostClock {
    origin: Instant,
    #[cfg(target_arch = "x86_64")]
    tick: Option<Tick>,
}

/// Nanoseconds are `(counter - counter_origin) * scale >> 32`.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
struct Tick {
    counter_origin: u64,
    scale: u64,
}

impl HostClock {
    /// Measures the counter against the system clock once a process (some milliseconds), if the
    /// counter is invariant.
    fn calibrated() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            static MEASURED: OnceLock<(Instant, Option<Tick>)> = OnceLock::new();
            let (origin, tick) = *MEASURED.get_or_init(|| {
                let tick = Tick::measured();
                (Instant::now(), tick)
            });
            Self { origin, tick }
        }
        #[cfg(not(target_arch = "x86_64"))]
        Self { origin: Instant::now() }
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        if let Some(tick) = self.tick {
            return tick.ns(Tick::counter());
        }
        self.origin.elapsed().as_nanos() as u64
    }
}

#[cfg(target_arch = "x86_64")]
impl Tick {
    #[inline]
    fn counter() -> u64 {
        // SAFETY: RDTSC reads a register; every x86-64 processor has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[inline]
    fn ns(self, counter: u64) -> u64 {
        // A counter read on another core may lag the origin by a few ticks.
        let ticks = counter.saturating_sub(self.counter_origin);
        ((u128::from(ticks) * u128::from(self.scale)) >> 32) as u64
    }

    /// `None` where the counter stops in deep sleep or follows the core's frequency (CPUID leaf
    /// 8000_0007h, EDX bit 8), or where the machine is too busy to measure it.
    fn measured() -> Option<Self> {
        use std::arch::x86_64::__cpuid;
        let invariant = __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
        if !invariant {
            return None;
        }
        let read = || (Self::counter(), Instant::now(), Self::counter());
        let begun = Reading::closest(read);
        while begun.instant.elapsed() < MEASURED_FOR {
            std::hint::spin_loop();
        }
        Self::between(begun, Reading::closest(read))
    }

    /// The pace of the counter between two readings. `None` if these are not exact enough.
    fn between(begun: Reading, ended: Reading) -> Option<Self> {
        let (ns, ticks) =
            (ended.instant.duration_since(begun.instant).as_nanos(), ended.counter.saturating_sub(begun.counter));
        let is_exact = begun.spread.saturating_add(ended.spread).saturating_mul(INEXACT_ONE_IN) < ticks;
        let scale = u64::try_from((ns << 32).checked_div(ticks.into())?).ok()?;
        is_exact.then_some(Self { counter_origin: begun.counter, scale })
    }
}

/// For how long the counter is measured.
#[cfg(target_arch = "x86_64")]
const MEASURED_FOR: Duration = Duration::from_millis(5);
/// Readings of which the closest counts.
#[cfg(target_arch = "x86_64")]
const READINGS: usize = 16;
/// The counter is not used if its pace may be wrong by one part in so many.
#[cfg(target_arch = "x86_64")]
const INEXACT_ONE_IN: u64 = 1000;

/// Both clocks at one moment.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
struct Reading {
    instant: Instant,
    counter: u64,
    /// Ticks that passed while both were read.
    spread: u64,
}

#[cfg(target_arch = "x86_64")]
impl Reading {
    /// The reading that took least time, of several. `read` reads the counter before and after the
    /// system clock. The system may run another thread in between, for any time: a pace that is
    /// measured by such a reading is wrong by any factor.
    fn closest(mut read: impl FnMut() -> (u64, Instant, u64)) -> Self {
        let mut reading = || {
            let (before, instant, after) = read();
            // On another core the counter may lag.
            let spread = after.wrapping_sub(before);
            Self { instant, counter: before.wrapping_add(spread / 2), spread }
        };
        let first = reading();
        (1..READINGS).map(|_| reading()).fold(first, |best, next| if next.spread < best.spread { next } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_clock_keeps_the_pace_of_the_system_clock() {
        let clock = Clock::host();
        let (instant, ns) = (Instant::now(), clock.now_ns());
        std::thread::sleep(std::time::Duration::from_millis(50));
        let (by_system, by_us) = (instant.elapsed().as_nanos() as f64, (clock.now_ns() - ns) as f64);
        assert!((by_us / by_system - 1.0).abs() < 0.05, "{by_us} against {by_system}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_thread_that_waits_for_the_processor_while_it_measures_the_counter_measures_the_same() {
        let start = Instant::now();
        // A counter of three ticks a nanosecond. Of each reading's two halves one waits, but for
        // the ninth reading.
        let readings = |from_ns: u64| {
            let mut number = 0;
            move || {
                let ns = from_ns + 100_000_000 * number;
                let (first, second) = match number {
                    8 => (20, 20),
                    number if number % 2 == 0 => (50_000_000, 20),
                    _ => (20, 50_000_000),
                };
                number += 1;
                (3 * ns, start + Duration::from_nanos(ns + first), 3 * (ns + first + second))
            }
        };
        let (begun, ended) = (Reading::closest(readings(0)), Reading::closest(readings(5_000_000)));
        let tick = Tick::between(begun, ended).expect("two readings are exact");
        assert!(tick.ns(begun.counter + 3_000_000).abs_diff(1_000_000) < 1000, "3 ticks a nanosecond: {tick:?}");
        let late = Reading { spread: 3 * 50_000_000, ..ended };
        assert!(Tick::between(begun, late).is_none() && Tick::between(ended, begun).is_none());
    }

    #[test]
    fn the_agents_clock_is_the_kernels_whatever_the_time_namespace() {
        let told = |file| offset_told(file);
        assert_eq!(told("monotonic           0         0\nboottime            0         0\n"), Some(0));
        assert_eq!(told("monotonic 5 0\nboottime 3600 250000000\n"), Some(3_600_250_000_000));
        assert_eq!(told("boottime -7200 1\n"), Some(-7_199_999_999_999));
        assert_eq!((told(""), told("boottime x 0")), (None, None));
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
        let here_s: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
        let ms = Clock::host().agent_ms().expect("the tests run with /proc");
        let offset_s = boot_offset_ns().unwrap() as f64 / 1e9;
        assert!((ms as f64 / 1e3 - (here_s - offset_s)).abs() < 5.0, "{ms} ms at {here_s} s");
        assert!(Clock::host().agent_ms().unwrap() >= ms);
    }

    #[test]
    fn manual_clock_stands_until_it_is_set() {
        let (clock, word) = Clock::manual(5_000_000);
        assert_eq!((clock.now_ns(), clock.unix_ms()), (5_000_000, 5));
        word.store(7_000_000, Ordering::Relaxed);
        assert_eq!(clock.unix_ms(), 7);
    }
}
