//! The clients of a scenario that know each other's tasks, by their numbers in the case.

use crate::client::Client;
use crate::subject::Subject;
use atoll_cache::CacheError;
use atoll_fabric::Endpoint;
use atoll_sim::{ClientId, Control};
use std::cell::Cell;
use std::rc::Rc;

/// Most clients of a cast.
const CLIENTS_MAX: usize = 3;

/// The clients of a scenario. Clones share the tasks.
#[derive(Clone)]
pub struct Cast {
    /// Kills, stops and resumes the clients.
    pub control: Control,
    /// By number: the tasks of the clients that have entered.
    tasks: Rc<[Cell<Option<ClientId>>; CLIENTS_MAX]>,
}

impl Cast {
    /// A cast that no client has entered.
    pub fn new(control: Control) -> Self {
        Self { control, tasks: Rc::default() }
    }

    /// Tends the client's cache, so that its endpoint has posted, and enters its task.
    pub async fn enter<S: Subject>(&self, client: &Client<S>) -> Result<ClientId, CacheError> {
        client.cache.tend().await?;
        let me = self.control.identified(client.endpoint().identity()).expect("it has posted");
        self.tasks[client.number as usize].set(Some(me));
        Ok(me)
    }

    /// The task of the client with this number, once it has entered.
    pub fn task(&self, number: usize) -> Option<ClientId> {
        self.tasks[number].get()
    }

    /// Waits until the first `count` clients have entered and are dead. A client that kills itself
    /// ends here.
    pub async fn wait_for_deaths<S: Subject>(&self, client: &Client<S>, count: usize) {
        while self.tasks[..count].iter().any(|task| task.get().is_none_or(|task| self.control.is_alive(task))) {
            client.endpoint().pause(1_000).await;
        }
    }
}
