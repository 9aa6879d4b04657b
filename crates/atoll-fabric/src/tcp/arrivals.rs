//! One descriptor for all links of an endpoint: an `epoll`, which reports what is there, and not
//! what is new.

use super::TcpEndpoint;
use super::endpoint::IDLE_POLLS_MAX;
use super::link::{Blocking, Link};
use crate::Arrivals;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The descriptor, from its first use on.
#[derive(Debug, Default)]
pub(super) struct Readiness(Option<OwnedFd>);

impl Readiness {
    /// From now on it reports what arrives on a link. A link that is closed leaves by itself.
    pub(super) fn add(&self, link: &Link) {
        let Some(epoll) = &self.0 else { return };
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: both descriptors are open; the event is a valid one, which the call only reads.
        unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, link.descriptor(), &raw mut event) };
    }

    fn descriptor<'l>(&mut self, links: impl Iterator<Item = &'l Link>) -> Option<OwnedFd> {
        if self.0.is_none() {
            // SAFETY: the call touches no memory of this process.
            let made = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
            // SAFETY: the descriptor is new, and nothing else owns it.
            self.0 = (made >= 0).then(|| unsafe { OwnedFd::from_raw_fd(made) });
            links.for_each(|link| self.add(link));
        }
        self.0.as_ref()?.try_clone().ok()
    }
}

impl Arrivals for TcpEndpoint {
    fn descriptor(&self) -> Option<OwnedFd> {
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        core.readiness.descriptor(core.links.iter().flatten())
    }

    fn send(&self) {
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        core.links.iter_mut().flatten().filter(|link| link.is_busy()).for_each(|link| link.flush(&mut core.flights));
    }

    fn receive(&self) {
        let mut core = self.core.borrow_mut();
        let core = &mut *core;
        for link in core.links.iter_mut().flatten().filter(|link| link.is_busy()) {
            if !link.receive(&mut core.flights, Blocking::No) {
                link.check_deadline(&mut core.flights, self.clock_ns(), core.deadline_ns);
            }
        }
        core.end_with_home();
        core.flights.wake_others();
        core.idle_polls = core.flights.len().min(IDLE_POLLS_MAX);
    }
}
