//! A server of one request after another: a processing engine, or one direction of a link.
//!
//! Its only state is the time from which it is free. That is enough as long as requests arrive in
//! the order of time. So every stage of a verb's path that shares a server has its own event (see
//! [`network`](super)).

/// A server with one queue, first come first served. Times are picoseconds of virtual time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    free_at: u64,
    busy_ps: u64,
}

impl Server {
    /// Serves a request that comes `at` for `takes_ps`, and gives when that is done.
    #[inline]
    pub(crate) fn serve(&mut self, at: u64, takes_ps: u64) -> u64 {
        self.free_at = self.free_at.max(at) + takes_ps;
        self.busy_ps += takes_ps;
        self.free_at
    }

    /// For how long the requests so far keep it busy.
    pub(crate) fn busy_ps(&self) -> u64 {
        self.busy_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_while_it_is_busy_waits_and_who_comes_later_does_not() {
        let mut server = Server::default();
        assert_eq!(server.serve(100, 50), 150);
        assert_eq!(server.serve(110, 50), 200);
        assert_eq!(server.serve(500, 50), 550);
        assert_eq!(server.busy_ps(), 150);
    }
}
