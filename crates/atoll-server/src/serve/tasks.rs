//! The tasks of a worker.

use std::cell::RefCell;
use std::panic::resume_unwind;
use std::task::Poll;
use tokio::task::JoinSet;

/// Tasks on the worker's thread. They are aborted with this.
#[derive(Default)]
pub(super) struct Tasks(RefCell<JoinSet<()>>);

impl Tasks {
    /// Runs within a `LocalSet`.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.borrow_mut().spawn_local(task);
    }

    /// Never ends. At least one task is there all the time.
    ///
    /// # Panics
    /// If one of them does. It may have left half done what the other tasks rely on.
    pub(super) async fn watch(&self) {
        std::future::poll_fn(|context| {
            while let Poll::Ready(Some(ended)) = self.0.borrow_mut().poll_join_next(context) {
                if let Some(panic) = ended.err().and_then(|error| error.try_into_panic().ok()) {
                    resume_unwind(panic);
                }
            }
            Poll::<()>::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::first;
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tokio::task::{LocalSet, yield_now};

    #[test]
    fn a_panic_of_a_task_is_its_workers() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let run = |panics: bool| {
            let turns = async {
                let tasks = Tasks::default();
                tasks.spawn(std::future::pending());
                tasks.spawn(async {});
                let spawning = async {
                    for turn in 0..10 {
                        yield_now().await;
                        tasks.spawn(async move { assert!(turn != 5 || !panics, "this turn panics") });
                    }
                };
                first(spawning, tasks.watch()).await;
            };
            catch_unwind(AssertUnwindSafe(|| LocalSet::new().block_on(&runtime, turns)))
        };
        assert!(run(false).is_ok());
        assert!(run(true).unwrap_err().downcast_ref::<&str>().is_some_and(|what| what.contains("turn panics")));
    }
}
