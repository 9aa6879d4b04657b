//! The same operations as futures, for programs with an executor of any kind.
//!
//! Where memory is near, an operation ends at its first poll and never waits, but for the moment
//! that another thread has the same client. Where the fabric waits, a thread of the cache does the
//! operation and wakes the task: the executor's threads are never blocked. A future that is dropped
//! before its end leaves an operation that was handed over to run to its end.

use super::load::{Ending, LoadError, Turn, shared};
use super::{Error, Keys, Statistics};
use crate::fabric::{AddressedFabric, PoolFabric};
use atoll_cache::{SetOptions, SetOutcome};
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

/// Threads that wait for a fabric.
const THREADS: usize = 8;

type Job<F> = Box<dyn FnOnce(&super::Cache<F>) + Send>;

/// A [`Cache`](super::Cache) whose operations are futures. Cheap to clone.
pub struct Cache<F: PoolFabric = AddressedFabric> {
    cache: super::Cache<F>,
    /// To threads that wait for the fabric, if that does not answer at once.
    jobs: Option<Arc<Mutex<mpsc::Sender<Job<F>>>>>,
}

impl<F: PoolFabric> Clone for Cache<F> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), jobs: self.jobs.clone() }
    }
}

/// What a job comes to, for the task that waits for it.
struct Done<T> {
    output: Option<T>,
    waiting: Option<Waker>,
}

impl<F: PoolFabric> super::Cache<F> {
    /// The same cache with operations that are futures.
    ///
    /// # Errors
    /// If the fabric waits, and the threads that wait for it cannot be started.
    pub fn into_future(self) -> std::io::Result<Cache<F>> {
        let jobs = if self.pool().is_near() { None } else { Some(Arc::new(Mutex::new(start(&self)?))) };
        Ok(Cache { cache: self, jobs })
    }
}

/// Starts the threads, which end when all that could give them jobs is dropped.
fn start<F: PoolFabric>(cache: &super::Cache<F>) -> std::io::Result<mpsc::Sender<Job<F>>> {
    let (sender, jobs) = mpsc::channel::<Job<F>>();
    let jobs = Arc::new(Mutex::new(jobs));
    for number in 0..THREADS {
        let (jobs, cache) = (jobs.clone(), cache.clone());
        let work = move || {
            loop {
                let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(job) = job else { return };
                job(&cache);
            }
        };
        std::thread::Builder::new().name(format!("atoll-wait-{number}")).spawn(work)?;
    }
    Ok(sender)
}

impl<F: PoolFabric> Cache<F> {
    /// The same cache with operations that block.
    pub fn blocking(&self) -> &super::Cache<F> {
        &self.cache
    }

    /// Does an operation here, or hands it over.
    async fn run<T: Send + 'static>(&self, operation: impl FnOnce(&super::Cache<F>) -> T + Send + 'static) -> T {
        let Some(jobs) = &self.jobs else { return operation(&self.cache) };
        let done = Arc::new(Mutex::new(Done { output: None, waiting: None }));
        let told = done.clone();
        let job = move |cache: &super::Cache<F>| {
            let output = operation(cache);
            let mut done = told.lock().unwrap_or_else(PoisonError::into_inner);
            done.output = Some(output);
            if let Some(waiting) = done.waiting.take() {
                waiting.wake();
            }
        };
        let sent = jobs.lock().unwrap_or_else(PoisonError::into_inner).send(Box::new(job));
        assert!(sent.is_ok(), "the threads live as long as this cache");
        poll_fn(|context| {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            match done.output.take() {
                Some(output) => Poll::Ready(output),
                None => {
                    done.waiting = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// As [`Cache::get`](super::Cache::get).
    pub async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        if self.jobs.is_none() {
            return self.cache.get(key);
        }
        let key = key.to_vec();
        self.run(move |cache| cache.get(&key)).await
    }

    /// As [`Cache::get_many`](super::Cache::get_many).
    pub async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        self.run(move |cache| cache.get_many(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>())).await
    }

    /// As [`Cache::contains`](super::Cache::contains).
    pub async fn contains(&self, key: &[u8]) -> Result<bool, Error> {
        let key = key.to_vec();
        self.run(move |cache| cache.contains(&key)).await
    }

    /// As [`Cache::set`](super::Cache::set).
    pub async fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if self.jobs.is_none() {
            return self.cache.set(key, value);
        }
        let (key, value) = (key.to_vec(), value.to_vec());
        self.run(move |cache| cache.set(&key, &value)).await
    }

    /// As [`Cache::set_for`](super::Cache::set_for).
    pub async fn set_for(&self, key: &[u8], value: &[u8], time: Duration) -> Result<(), Error> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.run(move |cache| cache.set_for(&key, &value, time)).await
    }

    /// As [`Cache::set_if_absent`](super::Cache::set_if_absent).
    pub async fn set_if_absent(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        let (key, value) = (key.to_vec(), value.to_vec());
        self.run(move |cache| cache.set_if_absent(&key, &value)).await
    }

    /// As [`Cache::set_with`](super::Cache::set_with).
    pub async fn set_with(&self, key: &[u8], value: &[u8], options: &SetOptions) -> Result<SetOutcome, Error> {
        let (key, value, options) = (key.to_vec(), value.to_vec(), *options);
        self.run(move |cache| cache.set_with(&key, &value, &options)).await
    }

    /// As [`Cache::delete`](super::Cache::delete).
    pub async fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        let key = key.to_vec();
        self.run(move |cache| cache.delete(&key)).await
    }

    /// As [`Cache::take`](super::Cache::take).
    pub async fn take(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let key = key.to_vec();
        self.run(move |cache| cache.take(&key)).await
    }

    /// As [`Cache::increment`](super::Cache::increment).
    pub async fn increment(&self, key: &[u8], by: i64) -> Result<i64, Error> {
        let key = key.to_vec();
        self.run(move |cache| cache.increment(&key, by)).await
    }

    /// As [`Cache::append`](super::Cache::append).
    pub async fn append(&self, key: &[u8], suffix: &[u8]) -> Result<usize, Error> {
        let (key, suffix) = (key.to_vec(), suffix.to_vec());
        self.run(move |cache| cache.append(&key, &suffix)).await
    }

    /// As [`Cache::expire`](super::Cache::expire).
    pub async fn expire(&self, key: &[u8], time: Duration) -> Result<bool, Error> {
        let key = key.to_vec();
        self.run(move |cache| cache.expire(&key, time)).await
    }

    /// As [`Cache::persist`](super::Cache::persist).
    pub async fn persist(&self, key: &[u8]) -> Result<bool, Error> {
        let key = key.to_vec();
        self.run(move |cache| cache.persist(&key)).await
    }

    /// As [`Cache::objects`](super::Cache::objects).
    pub async fn objects(&self) -> Result<u64, Error> {
        self.run(super::Cache::objects).await
    }

    /// As [`Cache::flush`](super::Cache::flush).
    pub async fn flush(&self) -> Result<u64, Error> {
        self.run(super::Cache::flush).await
    }

    /// All keys, by steps that block while the fabric waits.
    pub fn keys(&self) -> Keys<F> {
        self.cache.keys()
    }

    /// What was counted so far by this cache and its clones.
    pub fn statistics(&self) -> Statistics {
        self.cache.statistics()
    }

    /// As [`Cache::get_with`](super::Cache::get_with), with a loader that is a future. If it is
    /// dropped the turn passes to a task that waits.
    pub async fn get_with(&self, key: &[u8], load: impl Future<Output = Vec<u8>>) -> Result<Vec<u8>, Error> {
        match self.try_get_with(key, async { Ok::<_, Infallible>(load.await) }).await {
            Ok(value) => Ok(value),
            Err(LoadError::Cache(error)) => Err(error),
            Err(LoadError::Loader(never)) => match *never {},
        }
    }

    /// As [`Cache::try_get_with`](super::Cache::try_get_with), with a loader that is a future.
    pub async fn try_get_with<E: Send + Sync + 'static>(
        &self,
        key: &[u8],
        load: impl Future<Output = Result<Vec<u8>, E>>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        loop {
            if let Some(value) = self.get(key).await.map_err(LoadError::Cache)? {
                return Ok(value);
            }
            match self.cache.0.loads.enter(key) {
                Turn::Another(other) => {
                    if let Some(shared) = shared(poll_fn(|context| other.poll_wait(context)).await) {
                        return shared;
                    }
                }
                Turn::Mine(loader) => {
                    if let Some(value) = self.get(key).await.map_err(LoadError::Cache)? {
                        loader.end(Ending::Value(value.as_slice().into()));
                        return Ok(value);
                    }
                    return self.cache.loaded(loader, key, load.await);
                }
            }
        }
    }
}
