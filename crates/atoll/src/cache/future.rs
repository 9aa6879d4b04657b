//! The same operations as futures, for programs with an executor of any kind.
//!
//! | memory | an operation | a future that is dropped |
//! |---|---|---|
//! | near | ends at its first poll; it waits only while another thread uses the same client | has ended, or never began |
//! | reached by a network | runs on a thread of the cache, which wakes the task; the executor's threads never block | leaves an operation that runs to its end |

use super::load::{Ending, Lease, LoadError, Loader, Turn, looks, shared};
use super::{Error, Keys, Statistics};
use crate::fabric::{AddressedFabric, PoolFabric};
use atoll_cache::{Meta, SetOptions, SetOutcome, Value};
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
    /// Passes jobs to the threads that wait for the fabric; `None` if the fabric answers at once.
    jobs: Option<Arc<Mutex<mpsc::Sender<Job<F>>>>>,
}

impl<F: PoolFabric> Clone for Cache<F> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), jobs: self.jobs.clone() }
    }
}

/// The result of a job, for the task that waits for it.
struct Done<T>(Mutex<(Option<T>, Option<Waker>)>);

impl<T> Done<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new((None, None))))
    }

    fn end(&self, output: T) {
        let mut done = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        done.0 = Some(output);
        done.1.take().into_iter().for_each(Waker::wake);
    }

    async fn output(&self) -> T {
        poll_fn(|context| {
            let mut done = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match done.0.take() {
                Some(output) => Poll::Ready(output),
                None => {
                    done.1 = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Lets time pass without an executor's clock. This is rare: a task waits for another process.
async fn sleep(time: Duration) {
    let done = Done::new();
    let slept = done.clone();
    let sleeper = move || {
        std::thread::sleep(time);
        slept.end(());
    };
    match std::thread::Builder::new().name("atoll-sleep".to_owned()).spawn(sleeper) {
        Ok(_) => done.output().await,
        // If no thread can be started, this thread sleeps.
        Err(_) => std::thread::sleep(time),
    }
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

/// Starts the threads. They end when every sender of jobs is dropped.
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

/// Writes operations as futures: those whose first parameters are bytes, and the others values.
macro_rules! operations {
    ($($name:ident($($bytes:ident),*; $($by:ident: $type:ty),*) -> $output:ty,)*) => {$(
        #[doc = concat!("As [`Cache::", stringify!($name), "`](super::Cache::", stringify!($name), ").")]
        pub async fn $name(&self, $($bytes: &[u8],)* $($by: $type),*) -> Result<$output, Error> {
            if self.jobs.is_none() {
                return self.cache.$name($($bytes,)* $($by),*);
            }
            $(let $bytes = $bytes.to_vec();)*
            self.run(move |cache| cache.$name($(&$bytes,)* $($by),*)).await
        }
    )*};
}

/// The value of a key, or this task's turn to load it.
enum Missed<'c, E> {
    Ended(Result<Vec<u8>, LoadError<E>>),
    Mine(Loader<'c>),
}

impl<F: PoolFabric> Cache<F> {
    /// The same cache with operations that block.
    pub fn blocking(&self) -> &super::Cache<F> {
        &self.cache
    }

    /// Runs an operation here, or passes it to a thread that waits.
    async fn run<T: Send + 'static>(&self, operation: impl FnOnce(&super::Cache<F>) -> T + Send + 'static) -> T {
        let Some(jobs) = &self.jobs else { return operation(&self.cache) };
        let done = Done::new();
        let told = done.clone();
        let job = move |cache: &super::Cache<F>| told.end(operation(cache));
        let sent = jobs.lock().unwrap_or_else(PoisonError::into_inner).send(Box::new(job));
        assert!(sent.is_ok(), "the threads live as long as this cache");
        done.output().await
    }

    operations! {
        get(key;) -> Option<Vec<u8>>,
        peek(key;) -> Option<Meta>,
        contains(key;) -> bool,
        get_range(key; start: i64, end: i64) -> Vec<u8>,
        set(key, value;) -> (),
        set_for(key, value; time: Duration) -> (),
        set_if_absent(key, value;) -> bool,
        replace(key, value;) -> Option<Vec<u8>>,
        delete(key;) -> bool,
        take(key;) -> Option<Vec<u8>>,
        increment(key; by: i64) -> i64,
        increment_float(key; by: f64) -> f64,
        append(key, suffix;) -> usize,
        prepend(key, prefix;) -> usize,
        expire(key; time: Duration) -> bool,
        persist(key;) -> bool,
        objects(;) -> u64,
        flush(;) -> u64,
    }

    /// As [`Cache::get_into`](super::Cache::get_into).
    pub async fn get_into(&self, key: &[u8], value: &mut Value) -> Result<bool, Error> {
        if self.jobs.is_none() {
            return self.cache.get_into(key, value);
        }
        let (key, mut found) = (key.to_vec(), std::mem::take(value));
        let (hit, found) = self.run(move |cache| (cache.get_into(&key, &mut found), found)).await;
        *value = found;
        hit
    }

    /// As [`Cache::get_many`](super::Cache::get_many).
    pub async fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, Error> {
        if self.jobs.is_none() {
            return self.cache.get_many(keys);
        }
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
        self.run(move |cache| cache.get_many(&keys.iter().map(Vec::as_slice).collect::<Vec<_>>())).await
    }

    /// As [`Cache::set_with`](super::Cache::set_with).
    pub async fn set_with(&self, key: &[u8], value: &[u8], options: &SetOptions) -> Result<SetOutcome, Error> {
        let (key, value, options) = (key.to_vec(), value.to_vec(), *options);
        self.run(move |cache| cache.set_with(&key, &value, &options)).await
    }

    /// As [`Cache::set_range`](super::Cache::set_range).
    pub async fn set_range(&self, key: &[u8], offset: usize, bytes: &[u8]) -> Result<usize, Error> {
        let (key, bytes) = (key.to_vec(), bytes.to_vec());
        self.run(move |cache| cache.set_range(&key, offset, &bytes)).await
    }

    /// All keys, by steps that block while the fabric waits.
    pub fn keys(&self) -> Keys<F> {
        self.cache.keys()
    }

    /// What was counted so far by this cache and its clones.
    pub fn statistics(&self) -> Statistics {
        self.cache.statistics()
    }

    /// As [`Cache::get_with`](super::Cache::get_with), with a loader that is a future. If the
    /// future is dropped, its turn passes to a task that waits.
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
        let loader = match self.missed(key).await {
            Missed::Ended(ended) => return ended,
            Missed::Mine(loader) => loader,
        };
        match self.get(key).await.map_err(LoadError::Cache)? {
            // Another load may have ended since the lookup.
            Some(value) => {
                loader.end(Ending::Value(value.as_slice().into()));
                Ok(value)
            }
            None => self.loaded(loader, key, load.await).await,
        }
    }

    /// As [`Cache::try_get_with_lease`](super::Cache::try_get_with_lease), with a loader that is a
    /// future. If it is dropped, the lease expires.
    pub async fn try_get_with_lease<E: Send + Sync + 'static>(
        &self,
        key: &[u8],
        lease: Duration,
        load: impl Future<Output = Result<Vec<u8>, E>>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        for look in looks() {
            let loader = match self.missed(key).await {
                Missed::Ended(ended) => return ended,
                Missed::Mine(loader) => loader,
            };
            let leased = key.to_vec();
            match self.run(move |cache| cache.lease(&leased, lease)).await.map_err(LoadError::Cache)? {
                Lease::Value(value) => {
                    loader.end(Ending::Value(value.as_slice().into()));
                    return Ok(value);
                }
                Lease::Held { token } => {
                    let loaded = self.loaded(loader, key, load.await).await;
                    let leased = key.to_vec();
                    self.run(move |cache| cache.release_lease(&leased, token)).await;
                    return loaded;
                }
                Lease::Another => drop(loader),
            }
            sleep(look).await;
        }
        unreachable!("there is always another look")
    }

    async fn missed<E: Send + Sync + 'static>(&self, key: &[u8]) -> Missed<'_, E> {
        loop {
            match self.get(key).await {
                Ok(None) => {}
                found => return Missed::Ended(found.map(Option::unwrap_or_default).map_err(LoadError::Cache)),
            }
            match self.cache.0.loads.enter(key) {
                Turn::Mine(loader) => return Missed::Mine(loader),
                Turn::Another(other) => {
                    if let Some(shared) = shared(poll_fn(|context| other.poll_wait(context)).await) {
                        return Missed::Ended(shared);
                    }
                }
            }
        }
    }

    /// Sets the loader's value, and ends the load.
    async fn loaded<E: Send + Sync + 'static>(
        &self,
        loader: Loader<'_>,
        key: &[u8],
        loaded: Result<Vec<u8>, E>,
    ) -> Result<Vec<u8>, LoadError<E>> {
        let is_stored = match &loaded {
            Ok(value) => self.set(key, value).await.is_ok(),
            Err(_) => false,
        };
        self.cache.ended(loader, loaded, is_stored)
    }
}
