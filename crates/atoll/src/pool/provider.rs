//! Providing a pool's memory while clients already use it.
//!
//! A pool is created with [`START_BYTES`](atoll_fabric::fabric::START_BYTES) of its memory. A
//! thread of each process that has it open provides the rest, until all memory is present or the
//! pool is closed. See [`provision`] for why several threads may do so, and what keeps users from
//! missing memory. If the host runs out of memory, the thread retries from time to time. Until then
//! the pool is as large as the memory that is present.

use super::{OpenError, Opened, Pool};
use crate::fabric::PoolFabric;
use atoll_fabric::{Address, Endpoint, block_on};
use atoll_pool::provision::{self, Provided, Step};
use atoll_pool::{Layout, PoolError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause between two tries on a host without free memory.
const RETRY_PERIOD: Duration = Duration::from_millis(500);

/// The thread that provides the rest of a pool's memory, if any is missing. Dropping it stops the
/// thread.
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
            // The thread has the region open until it has ended. By then its panic, if any, was
            // reported.
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
    /// Provides all missing memory of the pool. `progress` gets the bytes that are present and the
    /// bytes in total.
    ///
    /// # Errors
    /// [`FabricError::NoRoom`](atoll_fabric::FabricError::NoRoom) if the host runs out of memory.
    /// The pool is then as large as the memory that is present.
    pub fn provide(&self, mut progress: impl FnMut(u64, u64)) -> Result<(), OpenError> {
        let opened = self.opened_now();
        let (endpoint, pool) = (opened.endpoint(), opened.chosen.pool());
        let capacity = pool.settings.capacity_bytes;
        let mut tables_next = Address::new(0, 0, 0);
        loop {
            progress(self.provided_bytes(), capacity);
            match block_on(&endpoint, provision::provide_next(&endpoint, &pool.layout, &mut tables_next)) {
                Ok(Step::More) => {}
                Ok(Step::All) => return Ok(()),
                Ok(Step::NoMemory) => return Err(opened.fabric.no_room(capacity).into()),
                Err(error) => return Err(PoolError::Verb(error).into()),
            }
        }
    }

    /// Bytes of the capacity whose memory is present. Clients use the pool while the rest is being
    /// provided; the pool is as large as the memory that is present.
    pub fn provided_bytes(&self) -> u64 {
        let opened = self.opened_now();
        let (endpoint, pool) = (opened.endpoint(), opened.chosen.pool());
        let provided = block_on(&endpoint, provision::provided(&endpoint, &pool.layout));
        let added = self.capacity_bytes() - pool.settings.capacity_bytes;
        provided.unwrap_or(Provided { chunks: 0, tables: false }).bytes(pool) + added
    }
}
