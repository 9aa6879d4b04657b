//! Where an endpoint's time comes from.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The host's clocks, or a clock set by hand (a replay runs in its trace's time).
#[derive(Clone, Debug)]
pub enum Clock {
    /// The host's monotone clock, and its wall clock.
    Host(HostClock),
    /// Nanoseconds since the Unix epoch, moved by whoever holds the other end.
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

    /// Milliseconds since the Unix epoch.
    pub fn unix_ms(&self) -> u64 {
        match self {
            Self::Host(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64),
            Self::Manual(word) => word.load(Ordering::Relaxed) / 1_000_000,
        }
    }
}

/// The host's monotone clock; on x86-64 the time-stamp counter, which costs a third of a system clock read.
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
    /// Measures the counter against the system clock once a process (some milliseconds), if the counter is invariant.
    fn calibrated() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            static MEASURED: std::sync::OnceLock<(Instant, Option<Tick>)> = std::sync::OnceLock::new();
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

    /// `None` where the counter stops in deep sleep or follows the core's frequency (CPUID leaf 8000_0007h, EDX bit 8).
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
    fn manual_clock_stands_until_it_is_set() {
        let (clock, word) = Clock::manual(5_000_000);
        assert_eq!((clock.now_ns(), clock.unix_ms()), (5_000_000, 5));
        word.store(7_000_000, Ordering::Relaxed);
        assert_eq!(clock.unix_ms(), 7);
    }
}
