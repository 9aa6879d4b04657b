//! Providing a pool's memory while the pool is already used.
//!
//! A pool is made with [`START_BYTES`] of its memory. A thread of each process that has it open
//! provides the rest, until all is there or the pool is closed; see [`provision`] for why several
//! may, and what holds users off until then. Where the host runs short the thread tries again from
//! time to time; meanwhile the pool is as large as what is there.

use super::{OpenError, Opened, Pool};
use crate::fabric::PoolFabric;
use atoll_fabric::{Address, Endpoint, block_on};
use atoll_pool::provision::{self, Provided, Step};
use atoll_pool::{Layout, PoolError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a region whose memory is there when the region is made.
pub(super) const START_BYTES: u64 = 16 << 20;
/// Between two tries of a host that had no memory left.
const RETRY_PERIOD: Duration = Duration::from_millis(500);

/// The thread that provides the rest of a pool's memory, if there is a rest. Dropping it ends that.
#[derive(Default)]
pub(super) struct Provider {
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Provider {
    pub(super) fn begin<F: PoolFabric>(opened: &Opened<F>) -> Result<Self, OpenError> {
        let (endpoint, pool) = (opened.endpoint(), opened.chosen.pool().clone());
        let provided = block_on(&endpoint, provision::provided(&endpoint, &pool.layout)).map_err(PoolError::Verb)?;
        let end = Arc::<(Mutex<bool>, Condvar)>::default();
        if provided.is_all(&pool.layout) {
            return Ok(Self { end, thread: None });
        }
        let is_ended = end.clone();
        let provide = move || provide_until(&is_ended, &endpoint, &pool.layout);
        // Without a thread, clients that find no free chunk provide what they need.
        let thread = std::thread::Builder::new().name("atoll-provider".to_owned()).spawn(provide).ok();
        Ok(Self { end, thread })
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        let (end, told) = &*self.end;
        *end.lock().unwrap_or_else(PoisonError::into_inner) = true;
        told.notify_all();
        if let Some(thread) = self.thread.take() {
            // It has the region open until it has ended. A panic of its own was told by then.
            let _ = thread.join();
        }
    }
}

fn provide_until<E: Endpoint>((end, told): &(Mutex<bool>, Condvar), endpoint: &E, layout: &Layout) {
    let mut tables_next = Address::new(0, 0, 0);
    loop {
        let wait = match block_on(endpoint, provision::provide_next(endpoint, layout, &mut tables_next)) {
            Ok(Step::More) => Duration::ZERO,
            Ok(Step::NoMemory) => RETRY_PERIOD,
            Ok(Step::All) | Err(_) => return,
        };
        let is_ended = end.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = told.wait_timeout_while(is_ended, wait, |is_ended| !*is_ended);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
    }
}

impl<F: PoolFabric> Pool<F> {
    /// Provides all memory of the pool that is not there yet; `progress` is told the bytes that are
    /// there, and of how many.
    ///
    /// # Errors
    /// [`FabricError::NoRoom`](atoll_fabric::FabricError::NoRoom) if the host runs out of it. The
    /// pool is as large then as what is there.
    pub fn provide(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), OpenError> {
        let (endpoint, pool) = (self.endpoint(), self.0.chosen.pool());
        let capacity = pool.settings.capacity_bytes;
        let mut tables_next = Address::new(0, 0, 0);
        loop {
            progress(self.provided_bytes(), capacity);
            match block_on(&endpoint, provision::provide_next(&endpoint, &pool.layout, &mut tables_next)) {
                Ok(Step::More) => {}
                Ok(Step::All) => return Ok(()),
                Ok(Step::NoMemory) => return Err(self.0.fabric.no_room(capacity).into()),
                Err(error) => return Err(PoolError::Verb(error).into()),
            }
        }
    }

    /// Bytes of the capacity whose memory is there. A pool is used while the rest is still being
    /// provided, and is as large as what is there.
    pub fn provided_bytes(&self) -> u64 {
        let (endpoint, pool) = (self.endpoint(), self.0.chosen.pool());
        let provided = block_on(&endpoint, provision::provided(&endpoint, &pool.layout));
        let added = self.capacity_bytes() - pool.settings.capacity_bytes;
        provided.unwrap_or(Provided { chunks: 0, tables: false }).bytes(pool) + added
    }
}
