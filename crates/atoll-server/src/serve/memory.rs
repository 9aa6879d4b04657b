//! Memory of large values on its way back to the system.
//!
//! To free half a gigabyte takes a thread tens of milliseconds, in one call to the system. A worker
//! leaves that to a thread of its own, which has nothing else to do. A fault of a page in another
//! thread does not wait for it.

use atoll_cache::Value;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Less is freed at once: in a fraction of a millisecond.
const BYTES_MIN: usize = 4 << 20;

/// While the thread has so many bytes to free, a worker frees by itself: workers could drop more
/// than one thread can free.
const WAITING_BYTES_MAX: usize = 1 << 30;

/// Memory with its bytes.
type Memory = (usize, Box<dyn Send>);

/// Bytes that wait to be freed.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Where the thread that frees takes it from; none if the system has no thread for that.
static FREED: OnceLock<Option<Sender<Memory>>> = OnceLock::new();

fn start() -> Option<Sender<Memory>> {
    let (freed, queue) = channel::<Memory>();
    let free = move || {
        for (bytes, memory) in queue {
            drop(memory);
            WAITING.fetch_sub(bytes, Ordering::Relaxed);
        }
    };
    std::thread::Builder::new().name("atoll-free".to_owned()).spawn(free).ok().map(|_| freed)
}

/// Frees `memory`, which has so many bytes.
#[inline]
pub(crate) fn free<T: Send + 'static>(bytes: usize, memory: T) {
    if bytes >= BYTES_MIN {
        free_elsewhere(bytes, memory);
    }
}

#[cold]
fn free_elsewhere<T: Send + 'static>(bytes: usize, memory: T) {
    if WAITING.fetch_add(bytes, Ordering::Relaxed) < WAITING_BYTES_MAX
        && let Some(freed) = FREED.get_or_init(start)
    {
        // The thread lives as long as the process.
        let _ = freed.send((bytes, Box::new(memory)));
    } else {
        WAITING.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Frees the memory of a value that has more than `bytes_max`.
#[inline]
pub(crate) fn shrink_beyond(value: &mut Value, bytes_max: usize) {
    if let Some(large) = value.taken_beyond(bytes_max) {
        free(large.memory_bytes(), large);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{ThreadId, current};

    struct Freed(Sender<ThreadId>);

    impl Drop for Freed {
        fn drop(&mut self) {
            let _ = self.0.send(current().id());
        }
    }

    #[test]
    fn much_memory_is_freed_by_another_thread_and_little_at_once() {
        let (by, freed) = channel();
        free(BYTES_MIN - 1, Freed(by.clone()));
        assert_eq!(freed.try_recv(), Ok(current().id()));
        free(BYTES_MIN, Freed(by));
        assert_ne!(freed.recv(), Ok(current().id()));
        assert!(freed.recv().is_err());
        let (by, freed) = channel();
        WAITING.fetch_add(WAITING_BYTES_MAX, Ordering::Relaxed);
        free(BYTES_MIN, Freed(by));
        WAITING.fetch_sub(WAITING_BYTES_MAX, Ordering::Relaxed);
        assert_eq!(freed.recv(), Ok(current().id()), "the thread has enough to do");
    }
}
