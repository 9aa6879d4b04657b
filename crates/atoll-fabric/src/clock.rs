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
                let origin = Instant::now();
                (origin, Tick::measured(origin))
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
    /// 8000_0007h, EDX bit 8).
    fn measured(origin: Instant) -> Option<Self> {
        use std::arch::x86_64::__cpuid;
        let invariant = __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
        if !invariant {
            return None;
        }
        let counter_origin = Self::counter();
        while origin.elapsed().as_millis() < 5 {
            std::hint::spin_loop();
        }
        let (ns, ticks) = (origin.elapsed().as_nanos(), u128::from(Self::counter() - counter_origin));
        let scale = u64::try_from((ns << 32) / ticks).ok()?;
        Some(Self { counter_origin, scale })
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
